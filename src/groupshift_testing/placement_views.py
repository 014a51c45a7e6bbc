"""`groupshift.ports.placement_views.PlacementViews` of one view that was made before."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from groupshift.domain.commit_places import Topics
from groupshift.domain.expansion.probing import owners
from groupshift.domain.expansion.view import PlacementView


@dataclass(slots=True)
class MemoryPlacementViews:
    """``view`` at every look; each broker serves what the first count that fits its answers gives it;
    ``asked`` are the groups that brokers were asked about directly, ``answered`` those with offsets; ``told``
    is what there is to know of topics."""

    view: PlacementView
    answered: frozenset[str] = frozenset()
    asked: list[str] = field(default_factory=list)
    told: Topics = field(default_factory=Topics)
    closed: bool = False

    def look(self) -> PlacementView:
        """See the port."""
        return self.view

    def owners(self, groups: Collection[str]) -> Mapping[str, tuple[int, ...]]:
        """See the port."""
        self.asked += groups
        using = {node: counts[0] for node, counts in self.view.counted.items() if counts}
        return {group: owners(group, using, self.view.topic.leaders) for group in groups}

    def answering(self, groups: Collection[str]) -> frozenset[str]:
        """See the port."""
        return self.answered & set(groups)

    def topics(self, names: Collection[str]) -> Topics:
        """See the port."""
        return Topics(now={name: each for name, each in self.told.now.items() if name in names})

    def close(self) -> None:
        """See the port."""
        self.closed = True
