"""Pictures of a downgrade: its steps over time, and the release of every node."""

from __future__ import annotations

from groupshift.application.downgrade_account import DowngradeAccount, stretches
from groupshift.spark import picture as colours
from groupshift.spark.html import Markup
from groupshift.spark.run_report.lanes import Words, lanes

_WORDS = Words(
    title="Releases of the nodes over time", lane="node", runs="runs", ran="ran", becomes="is replaced by"
)


def releases(account: DowngradeAccount) -> dict[str, str]:
    """A colour for each of the two releases."""
    return {
        release: colours.colour(number)
        for number, release in enumerate(dict.fromkeys((account.plan.now, account.plan.release)))
    }


def nodes_picture(account: DowngradeAccount) -> Markup:
    """One lane a node with what it ran when, and one for the comparisons."""
    return lanes(account, stretches(account), releases(account), _WORDS)


def legend(account: DowngradeAccount) -> Markup:
    """What the colours mean."""
    return colours.legend(releases(account), {account.plan.release: "the older release"})
