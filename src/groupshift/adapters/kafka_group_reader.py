"""One view of a group from Kafka alone, with every broker: `groupshift.ports.cluster.GroupReader`."""

from __future__ import annotations

from groupshift.domain.group import GroupView
from groupshift.domain.group_protocol import Kind
from groupshift.domain.observation import view_of
from groupshift.ports.cluster import GroupSnapshots, ProtocolViews

_READ = frozenset({Kind.CLASSIC, Kind.CONSUMER})


class KafkaGroupReader:
    """Looks at the brokers first, then reads offsets and log ends: no offset is ahead of its log end."""

    def __init__(self, views: ProtocolViews, snapshots: GroupSnapshots) -> None:
        self._views, self._snapshots = views, snapshots

    def read(self, group: str) -> GroupView:
        """The group now; see `groupshift.ports.cluster.GroupReader.read`. ZooKeeper is not asked."""
        look = self._views.look(group)
        known = look.group.kind in _READ
        return view_of(look, self._snapshots.take([group]) if known else None)

    def close(self) -> None:
        """Close the connections."""
        self._views.close()
        self._snapshots.close()
