"""Rules of the preflight of a downgrade about groups, and about what the target makes of their records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from groupshift.domain.downgrade.facts import DowngradeFacts
from groupshift.domain.downgrade.inventory import InventoryGroup, of_kind
from groupshift.domain.downgrade.releases import SHARE, STREAMS
from groupshift.domain.facts import Complaint, sentence_list
from groupshift.domain.foreign_text import shell
from groupshift.domain.group_protocol import Kind
from groupshift.domain.verdict import Verdict
from groupshift.log.replay import GroupVerdict, LoadOutcome

_NAMED = 20
"""How many groups one finding names."""
_OTHERS = "X2"
"""The rule of the replay lint for a log that Apache Kafka did not write."""
_MEMBERS = "O4"
"""The rule of the replay lint under which offsets load and members do not: `consumers` and `newer` name
those."""


def newer(facts: DowngradeFacts) -> Iterator[Complaint]:
    """No group of a type that the target does not have, or has with fewer records."""
    release = facts.target.release
    for kind, feature in ((Kind.SHARE, SHARE), (Kind.STREAMS, STREAMS)):
        found = of_kind(facts.groups, kind)
        if not found:
            continue
        highest, level = facts.target.line.supports(feature), facts.view.finalised.get(feature, 0)
        if not highest:
            reason = f"{_counted(found, kind)}: {release} has no groups of this type"
            hint = "stop their members and delete the groups, or name a release that has them with --to"
            yield Verdict.FAIL, reason, hint
        elif level > highest:
            written = f"{_counted(found, kind)}: they were written at {feature} {level}"
            reason = f"{written}; whether {release}, which has {highest}, reads their records was not tried"
            yield Verdict.INCONCLUSIVE, reason, "try the target on a copy of one broker's folder first"


def consumers(facts: DowngradeFacts) -> Iterator[Complaint]:
    """Every group of type consumer is converted where the target does not serve them."""
    found = of_kind(facts.groups, Kind.CONSUMER)
    if not found or facts.serves_consumers:
        return
    busy = tuple(each for each in found if not each.empty)
    left = tuple(each for each in found if each.empty)
    if busy:
        why = f"{facts.target} does not serve them: members are told 35 and end, and the group becomes simple"
        reason = f"{_counted(busy, Kind.CONSUMER)} with members; {why}"
        ready = f"groupshift protocol assess --to classic --group {shell(busy[0].group)}"
        yield Verdict.FAIL, reason, f"restart the members with group.protocol=classic: {ready}"
    if left:
        why = "their records stay in the log, and the older coordinator expires their offsets by another rule"
        reason = f"{_counted(left, Kind.CONSUMER)} without members; {why}"
        hint = "let one classic member join and leave with the same group.id, without committing"
        yield Verdict.FAIL, reason, hint


def one_type(facts: DowngradeFacts) -> Iterator[Complaint]:
    """No group is of two types, or at two brokers."""
    for each in facts.groups:
        if each.dual:
            said = [f"{kind} at broker {node}" for node, kind in sorted(_listed(each).items())]
            said += [f"{each.logged.family} in the log"] if each.logged else []
            reason = f"group {each.group!r} is in several places or of several types: {sentence_list(said)}"
            yield Verdict.FAIL, reason, "wait until conversions and elections are over, then assess again"


def others(facts: DowngradeFacts) -> Iterator[Complaint]:
    """Groups of other things than consumers are classic: they are named, and nothing is to be done."""
    found = tuple(each for each in facts.groups if each.foreign)
    if found:
        kinds = sentence_list(sorted({each.protocol_type for each in found}))
        yield Verdict.PASS, f"{_names(found)}: of classic type ({kinds}), which every release loads", ""


def logged(facts: DowngradeFacts) -> Iterator[Complaint]:
    """Log and brokers know the same groups."""
    log = facts.log
    if log is None:
        if facts.view.partitions:
            yield (
                Verdict.ERROR,
                "the log of the offsets topic was not read, and only it says what the target would load",
                "give a copy of it with --segments, or allow reading __consumer_offsets",
            )
        return
    hidden = tuple(each for each in facts.groups if each.logged is not None and not each.listed)
    if hidden:
        reason = f"the log has what no broker lists: {_names(hidden)}"
        yield (
            Verdict.INCONCLUSIVE,
            reason,
            "is it a copy of another time, or has a coordinator failed to load?",
        )
    missing = tuple(each for each in facts.groups if each.listed and each.logged is None)
    if missing:
        reason = f"brokers list what the log does not have: {_names(missing)}"
        yield (
            Verdict.INCONCLUSIVE,
            reason,
            "is it a copy of another time, or has the group neither offset nor state?",
        )


def replayed(facts: DowngradeFacts) -> Iterator[Complaint]:
    """The target's coordinator loads every group from this very log: the replay lint, by rule."""
    if facts.log is None:
        return
    by_rule: dict[str, list[GroupVerdict]] = defaultdict(list)
    for each in facts.log.verdicts.values():
        if each.outcome is not LoadOutcome.LOADS and each.rule != _MEMBERS:
            by_rule[each.rule].append(each)
    total = len(facts.log.verdicts)
    if unproven := by_rule.pop(_OTHERS, []):
        reason = f"how {facts.target} loads {len(unproven)} groups is not known; {unproven[0].reason}"
        yield Verdict.ERROR, reason, "ask who made these brokers how to go to another release"
    for rule, found in sorted(by_rule.items()):
        names = sentence_list([repr(each.group_id) for each in found], _NAMED)
        lost = f"{len(found)} of {total} groups are lost to {facts.target} by rule {rule}: {names}"
        first = f"; first: {_record(found[0])}" if found[0].record is not None else ""
        yield Verdict.FAIL, f"{lost}; {found[0].reason}{first}", _REMEDY.get(rule, _STAY)


_STAY = "keep the release, or stop all members and commit the offsets anew after the downgrade"
_REMEDY = {
    "O1": "convert every group and compact the topic until no key of type 3 or above is left; or name 3.4.1",
    "O2": "name 3.4.1 or newer with --to; compaction does not help",
    "X1": "groupshift audit names what lies in a partition that is not the group's; commit it anew",
    "O5": "groupshift audit names what lies in a partition that is not the group's; delete the stale copies",
}


def _record(found: GroupVerdict) -> str:
    record = found.record
    if record is None:
        return ""
    kind = record.type_name or f"type {record.record_type}"
    of = "" if record.group_id in {None, found.group_id} else f" of group {record.group_id!r}"
    tombstone = ", a tombstone" if record.is_tombstone else ""
    return f"partition {record.src_partition} offset {record.src_offset}, {kind}{of}{tombstone}"


def _listed(each: InventoryGroup) -> dict[int, str]:
    return {node: one.kind.value for node, one in each.listed.items()}


def _counted(found: tuple[InventoryGroup, ...], kind: Kind) -> str:
    noun = "group" if len(found) == 1 else "groups"
    return f"{len(found)} {noun} of type {kind} ({_names(found)})"


def _names(found: tuple[InventoryGroup, ...]) -> str:
    return sentence_list([repr(each.group) for each in found], _NAMED)
