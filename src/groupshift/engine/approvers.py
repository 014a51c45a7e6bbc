"""Who may say yes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from groupshift.errors import Rejected

_ACCOUNT = re.compile(r"(?P<claimed>.*) \(uid [0-9]+(?:, (?P<account>.*))?\)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Approvers:
    """``names`` are accounts or users of Airflow, empty for anybody; with ``four_eyes`` it is never the one
    who asked for the run."""

    names: tuple[str, ...] = ()
    four_eyes: bool = False

    def require(self, who: str, *, requester: str, gate: str) -> None:
        """Raise `Rejected` unless ``who`` may say yes at this gate. Anybody may say no."""
        person = account_of(who)
        if self.names and person not in self.names:
            raise Rejected(
                f"gate {gate}: {who} may not approve, nothing was changed; the setting approval.approvers "
                f"names {', '.join(self.names)}: let one of them answer"
            )
        if self.four_eyes and person == account_of(requester):
            raise Rejected(
                f"gate {gate}: {who} asked for this run and may not approve it (setting approval.four_eyes), "
                "nothing was changed: let another person answer, by running the same command"
            )


def account_of(who: str) -> str:
    """Return the account or user that ``who`` is, whatever name it claims."""
    found = _ACCOUNT.fullmatch(who)
    return (found["account"] or found["claimed"]) if found else who
