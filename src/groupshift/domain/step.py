"""What a stage of a group's move does, as data; each has an inverse."""

from __future__ import annotations

from dataclasses import dataclass

from groupshift.domain.modes import MemberKind, Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceMembers:
    """Replace members of kind ``old`` by members of kind ``new``.

    ``slots`` are the fleet driver's names of the places whose occupant changes (for the process
    driver: supervisor slots), sorted; what runs there afterwards is of kind ``new``.
    """

    slots: tuple[str, ...]
    old: MemberKind
    new: MemberKind

    @property
    def inverse(self) -> ReplaceMembers:
        """The same places, back to what they held."""
        return ReplaceMembers(slots=self.slots, old=self.new, new=self.old)

    def after(self, earlier: ReplaceMembers) -> ReplaceMembers:
        """This step and the one that vacated its places, as one."""
        return ReplaceMembers(slots=self.slots, old=earlier.old, new=self.new)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMode:
    """Write the mode node. The inverse of a first write sets ``zookeeper`` (D13: never forget)."""

    to: Mode

    @property
    def inverse(self) -> SetMode:
        """The other mode."""
        return SetMode(to=Mode.ZOOKEEPER if self.to is Mode.KAFKA else Mode.KAFKA)


@dataclass(frozen=True, slots=True, kw_only=True)
class Soak:
    """Keep judging for ``seconds`` without acting; its own inverse does nothing."""

    seconds: int

    @property
    def inverse(self) -> None:
        """Waiting needs no way back."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteModeNode:
    """Remove the mode node; irreversible, and only after retire is proven."""

    @property
    def inverse(self) -> None:
        """None: this is the irreversible step."""
        return None


Step = ReplaceMembers | SetMode | Soak | DeleteModeNode
