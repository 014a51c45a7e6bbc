"""The report of an expansion that was run: the sentence first, then brokers, steps, comparisons, groups."""

from __future__ import annotations

from collections.abc import Sequence

from groupshift.application.expansion_account import (
    UNKNOWN,
    ExpansionAccount,
    away_ms,
    counted,
    expiring,
    restored,
    stretches,
)
from groupshift.application.run_account import compared, result_of
from groupshift.application.run_engine import StepStatus
from groupshift.domain.seal import StoredFile
from groupshift.domain.step import RunAct, Stand
from groupshift.domain.verdict import Verdict
from groupshift.spark import picture as colours
from groupshift.spark.account.banner import banner
from groupshift.spark.expansion_report.headline import headline
from groupshift.spark.expansion_report.movers import movers_table, moving_picture
from groupshift.spark.html import Markup, duration, facts, moment_utc, page, section, tag
from groupshift.spark.run_report import sections
from groupshift.spark.run_report.lanes import Words, lanes

_WORDS = Words(
    title="By which count each broker coordinates, over time",
    lane="broker",
    runs="counts",
    ran="counted",
    becomes="is restarted to count",
)


def render(account: ExpansionAccount, files: Sequence[StoredFile] = ()) -> str:
    """The HTML document; it needs nothing besides itself. ``files`` are those of the run's evidence."""
    top, plan, run = headline(account), account.plan, account.run
    lead = f"Run {run.run}, planned {moment_utc(run.created_at_ms)}: cluster {plan.cluster_id}"
    parts = [
        banner(top),
        _glance(account),
        _brokers(account),
        sections.comparisons(account),
        section(
            "Groups that move",
            moving_picture(plan),
            movers_table(plan.movers, "groupshift expansion status --json"),
        ),
        *sections.steps(account),
        sections.decided(account),
        sections.approved_for(account),
        sections.evidence(account, files),
    ]
    title = f"__consumer_offsets from {plan.before} to {plan.to} partitions"
    return page(title, top.verdict, lead, parts, word=top.word)


def _glance(account: ExpansionAccount) -> Markup:
    plan, found, away = account.plan, compared(account), away_ms(account)
    offsets, audits = restored(account), account.of_act(RunAct.AUDIT)
    pairs: list[tuple[str, object]] = [
        ("partitions before", plan.before),
        ("partitions to be", counted(account)),
        ("nobody consumed for", duration(away[1] - away[0]) if away else None),
        ("brokers", len(plan.brokers)),
        ("groups", max((each.groups or 0 for each in found), default=0) or None),
        ("groups that move", f"{len(plan.movers):,}"),
        ("offsets committed again", None if offsets is None else f"{offsets:,}"),
        ("of them with an expiry of their own, which is lost", expiring(account) or None),
        ("comparisons equal", f"{sum(each.verdict is Verdict.PASS for each in found)} of {len(found)}"),
        ("records in the log at the end", _records(audits)),
        ("steps read back", f"{_done(account)} of {len(account.steps)}"),
    ]
    return section("At a glance", facts(pairs))


def _records(audits: Sequence[StepStatus]) -> str | None:
    """As the last audit read them."""
    found = result_of(audits[-1]).get("records") if audits else None
    return None if found is None else f"{found:,}"


def _done(account: ExpansionAccount) -> int:
    return sum(each.stand is Stand.DONE for each in account.steps)


def _brokers(account: ExpansionAccount) -> Markup:
    plan = account.plan
    counts = dict.fromkeys((str(plan.before), str(plan.to), str(counted(account))))
    shades = {count: colours.colour(number) for number, count in enumerate(counts)}
    found = stretches(account)
    note = (
        "A bar is the count of partitions by which a broker finds groups, by the journal; grey is the time "
        "from the step before its restart until it was back and in sync, and until each broker was asked "
        "which count it uses. A sign below is a comparison of all groups."
    )
    return section(
        "Brokers and their counts",
        tag("p", note, class_="note"),
        colours.legend(shades, {str(plan.to): "partitions"}),
        lanes(account, found, {**shades, UNKNOWN: "#999"}, _WORDS),
    )
