"""The numbered rules of a downgrade (W…), what the hazard book has against it (H…), and which of their
findings no step of the plan answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from groupshift.domain.cluster import Asked
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.facts import Complaint, sentence_list
from groupshift.domain.foreign_text import shell
from groupshift.domain.group_counts import counted
from groupshift.domain.group_protocol import ASSIGNORS, PROTOCOLS, Kind
from groupshift.domain.hazards import Facts, Met, Role, Trait, look
from groupshift.domain.verdict import Finding, Verdict
from groupshift.domain.versions import METADATA, name_of
from groupshift.log.releases import Coordinator
from groupshift.log.replay import GroupVerdict, LoadOutcome
from groupshift.moves.downgrade.facts import DowngradeFacts, InventoryGroup, of_kind
from groupshift.moves.downgrade.releases import (
    GROUP,
    INTER_BROKER,
    SHARE,
    STREAMS,
    Compaction,
    Misfit,
    Standing,
    misfits,
)

_FIRST_GROUP_CONFIGS = 22
_SAY = "say what the brokers run, such as --from 4.3.1"
_LEAVE_OUT = "leave it out of the file that the older broker starts with"
_READ = "give a copy of it with --segments, or allow reading __consumer_offsets"


def known(facts: DowngradeFacts) -> Iterator[Complaint]:
    """What every broker runs is known, and what people say fits it."""
    for broker in facts.view.brokers:
        who, line = f"broker {broker.node_id}", broker.line
        if line is None and facts.said is None:
            told = broker.supported.get(METADATA)
            tells = (
                f"metadata.version up to {told[1]}, which is of no release that we know" if told else "none"
            )
            yield Verdict.ERROR, f"{who} does not tell its release (it tells {tells})", _SAY
        elif line is not None and facts.said is not None and not line.holds(facts.said):
            yield (
                Verdict.FAIL,
                f"{who} is of the line {line.since} to before {line.before}, not {facts.said}",
                "correct --from, or leave it out",
            )
    if not facts.target.proven:
        reason = (
            f"{facts.target.release} is newer than {facts.target.line.newest}, the last that was looked at"
        )
        yield Verdict.INCONCLUSIVE, reason, "try it on a copy of one broker's folder first"


def alike(facts: DowngradeFacts) -> Iterator[Complaint]:
    """All brokers run one release: features and groups are read for one."""
    lines: dict[str, list[str]] = defaultdict(list)
    kinds: dict[str, list[str]] = defaultdict(list)
    for broker in facts.view.brokers:
        line = broker.line
        lines[f"of the line {line.since}" if line else "of an unknown line"].append(str(broker.node_id))
        kinds[broker.coordinator.value.upper()].append(str(broker.node_id))
    if len(lines) > 1:
        reason = f"the brokers are of several releases: {_by(lines)}"
        yield (
            Verdict.FAIL,
            reason,
            "bring all brokers to one release first; a downgrade begun ends the same way",
        )
    if len(kinds) > 1:
        reason = f"the brokers run both group coordinators: {_by(kinds)}"
        yield Verdict.FAIL, reason, "give all brokers the same group.coordinator.rebalance.protocols"


def older(facts: DowngradeFacts) -> Iterator[Complaint]:
    """The target is older than what runs."""
    standings = facts.standings
    for kind, verdict, what in (
        (Standing.NEWER, Verdict.FAIL, "is newer than what runs on"),
        (Standing.SAME, Verdict.FAIL, "is what runs already on"),
        (Standing.UNKNOWN, Verdict.ERROR, "may or may not be older than what runs on"),
    ):
        nodes = [str(node) for node, found in standings.items() if found is kind]
        if nodes:
            hint = _SAY if kind is Standing.UNKNOWN else "name an older release with --to"
            yield verdict, f"{facts.target} {what} broker {sentence_list(nodes)}", hint


def controlled(facts: DowngradeFacts) -> Iterator[Complaint]:
    """There is a controller: features are lowered there, and nodes register with it."""
    view, remedy = facts.view, "wait until the cluster has a controller, then assess again"
    if view.kraft and view.quorum is None:
        yield Verdict.FAIL, f"no controller answers: {view.quorum_problem}", remedy
    elif view.quorum is not None and view.quorum.leader < 0:
        yield Verdict.FAIL, "the metadata quorum has no leader", remedy
    elif not view.kraft and view.controller < 0:
        yield Verdict.FAIL, "the cluster has no controller", remedy


def complete(facts: DowngradeFacts) -> Iterator[Complaint]:
    """Every broker tells all its groups and its configuration."""
    again = "wait until it has loaded them, then assess again"
    for broker in facts.view.brokers:
        if broker.loading:
            reason = (
                f"broker {broker.node_id} is loading coordinator partitions and cannot list all its groups"
            )
            yield Verdict.ERROR, reason, again
        if broker.untold:
            reason = f"broker {broker.node_id} does not tell its configuration: {broker.untold}"
            yield Verdict.ERROR, reason, "allow DescribeConfigs on the cluster to this login"
    if facts.view.leaderless:
        which = sentence_list([str(number) for number in facts.view.leaderless])
        yield Verdict.ERROR, f"partition {which} of the offsets topic has no leader", "bring its brokers back"


def features(facts: DowngradeFacts) -> Iterator[Complaint]:
    """No feature is finalised above what the target reads: its controllers would die on the record."""
    release = facts.target.release
    for each in facts.path.lowered:
        level, to = _level(each.feature, each.level), _level(each.feature, each.to)
        reason = f"feature {each.feature} is finalised at {level}; {release} reads up to {to}"
        lower = f"kafka-features.sh downgrade --feature {each.feature}={each.to}"
        yield Verdict.FAIL, reason, f"when the groups are converted: {lower}"
    for each in facts.path.fixed:
        reason = f"feature {each.feature} is finalised at {each.level}; {release} reads up to {each.to}"
        yield (
            Verdict.FAIL,
            f"{reason}, and no release lowers it",
            "there is no way to this release; name a newer one with --to",
        )


def metadata(facts: DowngradeFacts) -> Iterator[Complaint]:
    """No level between changed what the metadata log holds."""
    changes, level = list(facts.path.changes), facts.view.finalised.get(METADATA)
    if changes and level is not None:
        highest = name_of(facts.target.line.metadata)
        met = f"metadata.version is {name_of(level)}; {facts.target.release} reads up to {highest}"
        what = f"{sentence_list(changes)} changed the metadata log: Kafka undoes no such change"
        hint = f"nothing goes back to below {changes[-1]}; name a newer release with --to"
        yield Verdict.FAIL, f"{met}, and {what}", hint


def snapshot(facts: DowngradeFacts) -> Iterator[Complaint]:
    """A newer metadata snapshot hides the records that the target does not know."""
    if not facts.path.snapshot or facts.view.quorum is None:
        return
    ends = "broker may not serve with it" if facts.brokers_only else "node that replays it ends at its start"
    reason = (
        f"{facts.target.release} knows lower levels of features than what runs: a record of a higher one may "
        f"lie in the metadata log, and a {ends}"
    )
    where = "every broker" if facts.brokers_only else "every node with process.roles"
    hint = (
        f"wait on {where} for __cluster_metadata-0/<offset>-<epoch>.checkpoint with an "
        f"offset of {facts.view.quorum.high_watermark} or above (metadata.log.max.snapshot.interval.ms)"
    )
    yield Verdict.INCONCLUSIVE, reason, hint


def apart(facts: DowngradeFacts) -> Iterator[Complaint]:
    """Where only brokers are replaced, controllers are nodes of their own."""
    if not facts.brokers_only:
        return
    if not facts.view.kraft:
        reason = "with ZooKeeper every node is a broker: there are no controllers that keep their release"
        yield Verdict.FAIL, reason, "leave --brokers-only out"
    voters = set(facts.view.quorum.voters) if facts.view.quorum else set()
    both = [str(broker.node_id) for broker in facts.view.brokers if broker.node_id in voters]
    if both:
        reason = f"broker {sentence_list(both)} is a controller too: it cannot keep its release and change it"
        yield Verdict.FAIL, reason, "leave --brokers-only out: such nodes are replaced whole"


def compaction(facts: DowngradeFacts) -> Iterator[Complaint]:
    """The target can read what is written, or will when the topic is compacted."""
    release, log = facts.target.release, facts.log
    found = facts.path.compaction
    if found is Compaction.IMPOSSIBLE:
        reason = f"commits are written in version 4: {release} would serve every partition of them empty"
        yield Verdict.FAIL, reason, "name 3.4.1 or newer with --to; compaction does not help"
    elif found is Compaction.NEEDED and log is not None:
        count, types = sum(log.new_types.values()), ", ".join(map(str, log.new_types))
        held = f"the offsets topic holds {count} records of types {types}, tombstones included"
        reason = f"{held}; {release} breaks off at the first of a partition and serves it empty"
        hint = "convert every group, then compact the topic until no key of type 3 or above is left"
        yield Verdict.FAIL, reason, hint
    elif found is Compaction.UNKNOWN:
        reason = f"{release} breaks off at records of type 3 and above, and the log was not read"
        yield Verdict.ERROR, reason, _READ


def group_configs(facts: DowngradeFacts) -> Iterator[Complaint]:
    """No group has a configuration of its own where the target does not know them."""
    view, release = facts.view, facts.target.release
    if facts.target.line.metadata >= _FIRST_GROUP_CONFIGS or view.configs_asked is Asked.NONE:
        return
    if view.configs_problem:
        reason = f"the configurations of groups are not told: {view.configs_problem}"
        yield Verdict.ERROR, reason, "allow DescribeConfigs on groups to this login"
    for group, configs in sorted(view.group_configs.items()):
        said = ", ".join(f"{name}={value}" for name, value in sorted(configs.items()))
        own = f"group {group!r} has configurations of its own ({said})"
        reason = f"{own}, which {release} does not know and its metadata snapshots lose"
        names = ",".join(sorted(configs))
        delete = (
            f"kafka-configs.sh --alter --entity-type groups --entity-name {group} --delete-config {names}"
        )
        yield Verdict.FAIL, reason, f"write them down and delete them: {delete}"
    if view.configs_asked is Asked.LISTED:
        reason = "configurations of groups that do not exist cannot be listed before 4.1"
        yield Verdict.INCONCLUSIVE, reason, "look for ConfigRecord of type GROUP (32) in the metadata log"


def properties(facts: DowngradeFacts) -> Iterator[Complaint]:
    """What stands in the brokers' files is known to the target."""
    fatal: dict[Misfit, list[str]] = defaultdict(list)
    ignored: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for broker in facts.view.brokers:
        found = tuple(misfits(broker.properties, facts.target))
        for each in found:
            if each.fatal:
                fatal[each].append(str(broker.node_id))
        unknown = tuple(each.name for each in found if not each.fatal)
        if unknown:
            ignored[unknown].append(str(broker.node_id))
        if not facts.view.kraft and INTER_BROKER not in broker.properties:
            reason = f"broker {broker.node_id} has no {INTER_BROKER}: it speaks and writes by its own release"
            yield Verdict.FAIL, reason, _lower_inter_broker(facts)
    for each, nodes in fatal.items():
        reason = f"{each.name}={each.value} at broker {sentence_list(nodes)}: {each.why}"
        lowered = each.name == INTER_BROKER and not facts.view.kraft
        yield Verdict.FAIL, reason, _lower_inter_broker(facts) if lowered else _LEAVE_OUT
    for names, nodes in ignored.items():
        known = f"{facts.target.release} does not know {sentence_list(list(names))} and ignores it"
        yield Verdict.INCONCLUSIVE, f"{known} at broker {sentence_list(nodes)}", _LEAVE_OUT


def _lower_inter_broker(facts: DowngradeFacts) -> str:
    line = facts.target.line.name
    return f"set {INTER_BROKER}={line} and restart all brokers, one by one, before the first gets other jars"


def _level(feature: str, level: int) -> str:
    return name_of(level) if feature == METADATA else str(level)


def _by(found: dict[str, list[str]]) -> str:
    return sentence_list([f"{what} at broker {', '.join(nodes)}" for what, nodes in sorted(found.items())])


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


_CLIENTS = frozenset({Role.LIBRDKAFKA, Role.KAFKA_CLIENTS, Role.MIRROR_MAKER})


def bugs(facts: DowngradeFacts) -> tuple[Finding, ...]:
    """Findings of the hazards that are met or may be. Those of members are left to the move that converts
    them (``groupshift protocol assess``), which asks what they run."""
    judged = look(Comparison.DOWNGRADE, _known(facts))
    return tuple(
        each.finding for each in judged if each.finding.hint and not _CLIENTS & each.hazard.affected.keys()
    )


def _known(facts: DowngradeFacts) -> Facts:
    brokers = tuple(
        Met(where=f"broker {broker.node_id}", version=facts.version(broker), said=_said(facts))
        for broker in facts.view.brokers
    )
    target = Met(where="target", version=facts.target.version)
    return Facts(versions={Role.BROKER: brokers, Role.TARGET: (target,)}, traits=_traits(facts))


def _said(facts: DowngradeFacts) -> str:
    return str(facts.said) if facts.said is not None else ""


def _traits(facts: DowngradeFacts) -> dict[Trait, bool]:
    view = facts.view
    known = {
        Trait.KRAFT: view.kraft,
        Trait.STREAMS_GROUPS: bool(of_kind(facts.groups, Kind.STREAMS)),
        Trait.NEW_COORDINATOR: facts.target.coordinator is Coordinator.NEW,
        Trait.OLD_COORDINATOR: facts.target.coordinator is Coordinator.OLD,
        Trait.METADATA_CHANGED: bool(facts.path.changes),
    }
    if not view.configs_problem:
        known[Trait.GROUP_CONFIGS] = bool(view.group_configs)
    if facts.brokers_only:
        known[Trait.GROUP_VERSION] = False  # it is controllers that die of it; W11 asks for the brokers
    elif view.finalised.get(GROUP):
        known[Trait.GROUP_VERSION] = True
    elif not facts.path.snapshot:
        known[Trait.GROUP_VERSION] = False
    if facts.log is not None:
        known[Trait.NEW_RECORDS] = bool(facts.log.new_types)
    return known


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradeRule:
    """One rule: ``holds`` is the sentence of its passed finding."""

    number: str
    holds: str
    look: Callable[[DowngradeFacts], Iterator[Complaint]]

    def ask(self, facts: DowngradeFacts) -> tuple[Finding, ...]:
        """What is wrong, or one passed finding."""
        found = tuple(
            Finding(rule=self.number, verdict=verdict, reason=reason, hint=hint)
            for verdict, reason, hint in self.look(facts)
        )
        return found or (Finding(rule=self.number, verdict=Verdict.PASS, reason=self.holds),)


RULES = tuple(
    DowngradeRule(number=number, holds=holds, look=look)
    for number, holds, look in (
        (
            "W01",
            "what every broker runs is known, and the target is a release that was looked at",
            known,
        ),
        ("W02", "all brokers are of one line of releases and run one kind of coordinator", alike),
        ("W03", "the target is older than what runs", older),
        ("W04", "the cluster has a controller", controlled),
        ("W05", "every broker tells its groups and its configuration", complete),
        ("W06", "the target has every type of group that is there", newer),
        ("W07", "no group of type consumer is left, or the target serves them", consumers),
        ("W08", "every group is of one type and at one broker", one_type),
        ("W09", "no group is of something else than consumers", others),
        ("W10", "no group has a configuration that the target does not know", group_configs),
        ("W11", "no feature is finalised above what the target reads", features),
        ("W12", "no level of metadata.version between changed the metadata log", metadata),
        ("W13", "the metadata log holds no feature that the target does not know", snapshot),
        ("W14", "the brokers' files hold nothing that the target does not know", properties),
        ("W15", "the log has exactly the groups that the brokers list", logged),
        ("W16", "the target's coordinator loads every group from this log", replayed),
        ("W17", "the offsets topic needs no compaction for the target", compaction),
        ("W18", "where only brokers are replaced, controllers are nodes of their own", apart),
    )
)
"""Every rule, in the order in which they are asked."""


def ask(facts: DowngradeFacts) -> tuple[Finding, ...]:
    """What the rules say, passed ones included, what the hazard book has against this way (H…), and how
    brokers count groups (PG…), where that was asked."""
    counts = counted(facts.counts) if facts.counts is not None else ()
    return (*(finding for rule in RULES for finding in rule.ask(facts)), *bugs(facts), *counts)


_PREPARED = frozenset({"W07", "W10", "W11", "H01", "H03", "H05"})
"""Rules whose complaints the steps of a plan answer; the go/no-go asks them again."""
_BY_COMPACTION = frozenset({"W16", "W17"})
_FILES = "W14"
_CONFIGURED = "W10"
"""Group configurations: what could not be read is not deleted either."""
_LEFT_OUT = frozenset({PROTOCOLS, ASSIGNORS})
_CURED = frozenset({"L0", "O1", "O4"})
"""Rules of the replay lint that are no harm, or that conversion and compaction cure."""


def obstacles(facts: DowngradeFacts, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings that no step of the plan answers: a run may not begin."""
    return tuple(each for each in findings if _bad(each) and not _answered(facts, each.rule))


def no_go(facts: DowngradeFacts, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings for which no broker may be touched; only what the new files leave out is left to them."""
    return tuple(each for each in findings if _bad(each) and not (each.rule == _FILES and _droppable(facts)))


def _bad(finding: Finding) -> bool:
    return finding.verdict in {Verdict.FAIL, Verdict.ERROR}


def _answered(facts: DowngradeFacts, rule: str) -> bool:
    if not facts.path.possible:
        return False
    if rule in _BY_COMPACTION:
        return facts.path.compaction is Compaction.NEEDED and _curable(facts)
    if rule == _CONFIGURED and facts.view.configs_problem:
        return False
    return rule in _PREPARED or (rule == _FILES and _droppable(facts))


def _curable(facts: DowngradeFacts) -> bool:
    return facts.log is not None and {each.rule for each in facts.log.verdicts.values()} <= _CURED


def _droppable(facts: DowngradeFacts) -> bool:
    """Whether everything fatal in the brokers' files may be left out; with ZooKeeper a version must be set
    and all brokers restarted before, which no run does."""
    fatal = {
        each.name
        for broker in facts.view.brokers
        for each in misfits(broker.properties, facts.target)
        if each.fatal
    }
    return facts.view.kraft and fatal <= _LEFT_OUT
