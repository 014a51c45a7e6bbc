"""Snapshot: everything that must survive, written as evidence."""

from __future__ import annotations

from collections.abc import Mapping

from groupshift.application.claim import demand_held
from groupshift.application.environment import Environment
from groupshift.application.observe import LOOK_AGAIN_S, patient
from groupshift.application.records import Migration, load
from groupshift.domain.books import Wanted
from groupshift.domain.equality import nobody_at
from groupshift.domain.evidence import Manifest, Moment
from groupshift.domain.group import GroupView
from groupshift.domain.log_gaps import Gap, LogAnswer, isolation_of
from groupshift.domain.modes import Isolation
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import StageName
from groupshift.domain.snapshot import snapshot_rows
from groupshift.domain.verdict import Verdict
from groupshift.ports.journal import Entry, EventKind

_LATE_S = 10
"""How long a snapshot waits for a ledger that is behind the commits of its group."""
_CALM = ("C11", "C18")
"""A snapshot waits, as long as patience lasts, for a moment at which every partition is owned once and
every place is filled; after an act also for what that act leads to. A restarting member is no finding."""


def snapshot(env: Environment, migration: str, stage: StageName, moment: Moment) -> Manifest:
    """See `App.snapshot`."""
    found = load(env, migration)
    if _relied_on(found, stage, moment):
        kept = env.evidence.manifest(migration, stage.value, moment)
        if kept is not None:
            return kept
    driver, rules, wanted = found.plan.driver, *_calm(found, stage, moment)
    view = patient(env, found.record.group, driver, rules, wanted)[0].view
    rows = snapshot_rows(view, _delivered(env, view))
    demand_held(env, migration)  # a look may take long
    manifest = env.evidence.write((migration, stage.value, moment), view.taken_at_ms, rows)
    env.append(
        Entry(
            migration=migration,
            at_ms=env.clock.now_ms(),
            kind=EventKind.SNAPSHOT,
            stage=stage,
            body={"moment": moment.value, "digest": manifest.digest, "brokers": list(view.brokers)},
        )
    )
    return manifest


def _delivered(env: Environment, view: GroupView) -> Mapping[TopicPartition, int]:
    """What the ledgers say, once they have what this view says was committed. An old member's ledger is
    written by a process that reads what it printed, and may come later than its commit. Where one was behind
    only what lies below the commit counts: a commit that passed over records is not covered by what was
    delivered behind them meanwhile, and validation says so."""
    deadline = env.clock.now_ms() + min(_LATE_S, env.thresholds.patience_s) * 1000
    found = dict(env.ledger.last_delivered(view.group))
    behind: dict[TopicPartition, int] = {}
    for each in (*view.zookeeper_offsets, *view.kafka_offsets):
        if each.offset > found.get(each.partition, each.offset) + 1:
            behind[each.partition] = max(each.offset, behind.get(each.partition, 0))
    passed = [
        Gap(partition=at, start=found[at] + 1, end=end, isolation=_isolation(env, view, at))
        for at, end in behind.items()
    ]
    for read in env.records.read(passed) if passed else ():
        if read.answer is LogAnswer.NOTHING:  # markers, aborted, compacted: no ledger has them
            del behind[read.gap.partition]
    while behind and env.clock.now_ms() < deadline:
        env.clock.sleep(LOOK_AGAIN_S)
        found |= env.ledger.delivered_below(view.group, behind)
        behind = {at: offset for at, offset in behind.items() if found[at] < offset - 1}
    return found


def _isolation(env: Environment, view: GroupView, at: TopicPartition) -> Isolation:
    kinds = {member.member_id: member.kind for member in view.members}
    owners = view.owners_of().get(at, ())
    return isolation_of((kinds[each] for each in owners if each in kinds), env.isolation)


def _calm(found: Migration, name: StageName, moment: Moment) -> tuple[tuple[str, ...], Wanted]:
    stage = found.stage(name)
    if stage is not None and nobody_at(stage, moment):
        return (stage.after if moment is Moment.AFTER else ()), found.wanted(name)
    if moment is Moment.BEFORE or stage is None:
        return _CALM, None
    return tuple(dict.fromkeys((*_CALM, *stage.after))), found.wanted(name)


def _relied_on(found: Migration, stage: StageName, moment: Moment) -> bool:
    """A snapshot before an act is fixed once the act is intended; any other once it was judged, unless
    that is to be measured again: an error, or a way back that could not be proven."""
    taken = any(each[:2] == (stage, moment) for each in found.snapshots())
    if not taken:
        return False
    if moment is Moment.BEFORE and stage in found.steps:
        return True
    again = {None, Verdict.ERROR, Verdict.FAIL if stage.undoes else None}
    return found.verdict(stage, moment) not in again
