"""The numbered rules of a downgrade (W…), what the hazard book has against it (H…), and which of their
findings no step of the plan answers.

``rules.toml`` beside this module has their sentences, docs/reference/downgrade-rules.md explains them. A rule
yields what is wrong and never acts. Two questions are asked of all findings: may a run begin (`obstacles`:
what its own steps answer is no obstacle), and may the first broker be touched (`no_go`: then everything has
to be answered).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from groupshift.domain import cluster_rules, group_gauges
from groupshift.domain.cluster import Asked
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.facts import at_brokers, sentence_list
from groupshift.domain.foreign_text_quoting import shell
from groupshift.domain.group_protocol import ASSIGNORS, CONSUMERS, PROTOCOLS, Kind
from groupshift.domain.hazards import Facts, Met, Role, Trait, met_hazards
from groupshift.domain.partitions import grouped
from groupshift.domain.rules import Rules, Says
from groupshift.domain.verdict import Finding, against
from groupshift.domain.versions import METADATA
from groupshift.log.group_states import GroupFamily
from groupshift.log.releases import Coordinator
from groupshift.log.replay import GroupVerdict, LoadOutcome
from groupshift.moves.downgrade.facts import DowngradeFacts, InventoryGroup, of_kind
from groupshift.moves.downgrade.releases import (
    GROUP,
    INTER_BROKER,
    SHARE,
    STREAMS,
    Compaction,
    ReleaseOrder,
    misfits,
    name_of,
    standing,
)

RULES: Rules[DowngradeFacts] = Rules("moves/downgrade/rules.toml")
"""Every rule, in the order in which they are asked."""
_rule = RULES.rule
_FIRST_GROUP_CONFIGS = 22
_NAMED = 20
"""How many groups one finding names."""
_OTHERS = "X2"
"""The rule of the replay lint for a log that Apache Kafka did not write."""
_MEMBERS = "O4"
"""The rule of the replay lint under which offsets load and members do not: `consumers` and `newer` name
those."""


_rule("W04")(lambda facts: cluster_rules.controlled(facts.view))


@_rule("W01")
def known(facts: DowngradeFacts) -> Iterator[Says]:
    """What every broker runs is known, and what people say fits it."""
    for broker in facts.view.brokers:
        line, said = broker.line, facts.said
        if line is None and said is None:
            levels = broker.supported.get(METADATA)
            tells = (
                f"metadata.version up to {levels[1]}, which is of no release that we know"
                if levels
                else "none"
            )
            yield Says("release_untold", node=broker.node_id, tells=tells)
        elif line is not None and said is not None and not line.holds(said):
            yield Says(
                "release_misnamed", node=broker.node_id, since=line.since, before=line.before, said=said
            )
    if not facts.target.proven:
        yield Says("target_unproven", release=facts.target.release, newest=facts.target.line.newest)


@_rule("W02")
def alike(facts: DowngradeFacts) -> Iterator[Says]:
    """All brokers run one release: features and groups are read for one."""
    known = ((broker.line, broker.node_id) for broker in facts.view.brokers)
    lines = sorted(
        (f"of the line {line.since}" if line else "of an unknown line", node) for line, node in known
    )
    if len({line for line, _ in lines}) > 1:
        yield Says("several_lines", lines=at_brokers(lines))
    yield from cluster_rules.one_coordinator(facts.view)


@_rule("W03")
def older(facts: DowngradeFacts) -> Iterator[Says]:
    """The target is older than what runs."""
    standings = grouped(
        (standing(facts.version(broker), broker.coordinator, facts.target), broker.node_id)
        for broker in facts.view.brokers
    )
    for kind in (ReleaseOrder.NEWER, ReleaseOrder.SAME, ReleaseOrder.UNKNOWN):
        if nodes := standings.get(kind):
            yield Says(f"target_{kind}", target=facts.target, brokers=nodes)


@_rule("W05")
def complete(facts: DowngradeFacts) -> Iterator[Says]:
    """Every broker tells all its groups and its configuration."""
    yield from cluster_rules.complete(facts.view)
    if facts.view.leaderless:
        yield Says("offsets_leaderless", partitions=facts.view.leaderless)


@_rule("W06")
def newer(facts: DowngradeFacts) -> Iterator[Says]:
    """No group of a type that the target does not have, or has with fewer records."""
    release = facts.target.release
    for kind, feature in ((Kind.SHARE, SHARE), (Kind.STREAMS, STREAMS)):
        of_it = of_kind(facts.groups, kind)
        if not of_it:
            continue
        highest, level = facts.target.line.supports(feature), facts.view.finalised.get(feature, 0)
        groups = _counted(of_it, kind)
        if not highest:
            yield Says("type_unknown", groups=groups, release=release)
        elif level > highest:
            yield Says(
                "type_newer", groups=groups, release=release, feature=feature, level=level, highest=highest
            )


@_rule("W07")
def consumers(facts: DowngradeFacts) -> Iterator[Says]:
    """Every group of type consumer is converted where the target does not serve them."""
    of_it = of_kind(facts.groups, Kind.CONSUMER)
    if facts.serves_consumers:
        return
    if busy := tuple(each for each in of_it if not each.empty):
        groups, first = _counted(busy, Kind.CONSUMER), shell(busy[0].group)
        yield Says("native_busy", groups=groups, target=facts.target, first=first)
    if left := tuple(each for each in of_it if each.empty):
        yield Says("native_left", groups=_counted(left, Kind.CONSUMER))


@_rule("W08")
def one_type(facts: DowngradeFacts) -> Iterator[Says]:
    """No group is of two types, or at two brokers."""
    for each in facts.groups:
        twice = each.logged is not None and each.logged.family is GroupFamily.ANOMALY
        if twice or len(each.kinds) > 1 or len(each.listed) > 1:
            said = [f"{one.kind} at broker {node}" for node, one in sorted(each.listed.items())]
            said += [f"{each.logged.family} in the log"] if each.logged else []
            yield Says("several_types", group=each.group, places=said)


@_rule("W09")
def others(facts: DowngradeFacts) -> Iterator[Says]:
    """Groups of other things than consumers are classic: they are named, and nothing is to be done."""
    classic = (each for each in facts.groups if each.kinds <= {Kind.CLASSIC})
    if foreign := tuple(each for each in classic if each.protocol_type not in {"", CONSUMERS}):
        yield Says(
            "other_groups", groups=_names(foreign), kinds=sorted({each.protocol_type for each in foreign})
        )


@_rule("W10")
def group_configs(facts: DowngradeFacts) -> Iterator[Says]:
    """No group has a configuration of its own where the target does not know them."""
    view, release = facts.view, facts.target.release
    if facts.target.line.metadata >= _FIRST_GROUP_CONFIGS or view.configs_asked is Asked.NONE:
        return
    if view.configs_problem:
        yield Says("group_configs_untold", problem=view.configs_problem)
    for group, configs in sorted(view.group_configs.items()):
        said = ", ".join(f"{name}={value}" for name, value in sorted(configs.items()))
        names = ",".join(sorted(configs))
        yield Says("group_configured", group=group, configs=said, release=release, names=names)
    if view.configs_asked is Asked.LISTED:
        yield Says("group_configs_hidden")


@_rule("W11")
def features(facts: DowngradeFacts) -> Iterator[Says]:
    """No feature is finalised above what the target reads: its controllers would die on the record."""
    release = facts.target.release
    for each in facts.path.lowered:
        named = name_of if each.feature == METADATA else str
        level, to = named(each.level), named(each.to)
        yield Says("feature_above", feature=each.feature, level=level, release=release, to=to, number=each.to)
    for each in facts.path.fixed:
        yield Says("feature_fixed", feature=each.feature, level=each.level, release=release, to=each.to)


@_rule("W12")
def metadata(facts: DowngradeFacts) -> Iterator[Says]:
    """No level between changed what the metadata log holds."""
    changes, level = facts.path.changes, facts.view.finalised.get(METADATA)
    if changes and level is not None:
        yield Says(
            "metadata_changed",
            level=name_of(level),
            release=facts.target.release,
            highest=name_of(facts.target.line.metadata),
            changes=changes,
            last=changes[-1],
        )


@_rule("W13")
def snapshot(facts: DowngradeFacts) -> Iterator[Says]:
    """A newer metadata snapshot hides the records that the target does not know."""
    if facts.path.snapshot and facts.view.quorum is not None:
        only = facts.brokers_only
        yield Says(
            "snapshot_needed",
            release=facts.target.release,
            ends="broker may not serve with it" if only else "node that replays it ends at its start",
            where="every broker" if only else "every node with process.roles",
            offset=facts.view.quorum.high_watermark,
        )


@_rule("W14")
def properties(facts: DowngradeFacts) -> Iterator[Says]:
    """What stands in the brokers' files is known to the target."""
    zookeeper, line = not facts.view.kraft, facts.target.line.name
    unfit = {each.node_id: tuple(misfits(each.properties, facts.target)) for each in facts.view.brokers}
    for broker in facts.view.brokers:
        if zookeeper and INTER_BROKER not in broker.properties:
            yield Says("inter_broker_unset", node=broker.node_id, name=INTER_BROKER, line=line)
    fatal = grouped((each, node) for node, misfitting in unfit.items() for each in misfitting if each.fatal)
    for each, nodes in fatal.items():
        said = "inter_broker_newer" if zookeeper and each.name == INTER_BROKER else "property_fatal"
        yield Says(said, name=each.name, value=each.value, brokers=nodes, why=each.why, line=line)
    ignored = grouped(
        (tuple(each.name for each in misfitting if not each.fatal), node)
        for node, misfitting in unfit.items()
    )
    for names, nodes in ignored.items():
        if names:
            yield Says("properties_ignored", release=facts.target.release, names=names, brokers=nodes)


@_rule("W15")
def logged(facts: DowngradeFacts) -> Iterator[Says]:
    """Log and brokers know the same groups."""
    if facts.log is None:
        if facts.view.partitions:
            yield Says("log_unread")
        return
    if hidden := tuple(each for each in facts.groups if each.logged is not None and not each.listed):
        yield Says("only_logged", groups=_names(hidden))
    if missing := tuple(each for each in facts.groups if each.listed and each.logged is None):
        yield Says("only_listed", groups=_names(missing))


@_rule("W16")
def replayed(facts: DowngradeFacts) -> Iterator[Says]:
    """The target's coordinator loads every group from this very log: the replay lint, by rule."""
    if facts.log is None:
        return
    lost = (each for each in facts.log.verdicts.values() if each.outcome is not LoadOutcome.LOADS)
    by_rule = grouped((each.rule, each) for each in lost if each.rule != _MEMBERS)
    if odd := by_rule.pop(_OTHERS, []):
        yield Says("loading_unknown", target=facts.target, count=len(odd), why=odd[0].reason)
    for rule, verdicts in sorted(by_rule.items()):
        yield Says(
            "groups_lost",
            count=len(verdicts),
            total=len(facts.log.verdicts),
            target=facts.target,
            rule=rule,
            groups=sentence_list([repr(each.group_id) for each in verdicts], _NAMED),
            why=verdicts[0].reason,
            first=_first(verdicts[0]),
            remedy=_REMEDY.get(rule, _STAY),
        )


@_rule("W17")
def compaction(facts: DowngradeFacts) -> Iterator[Says]:
    """The target can read what is written, or will when the topic is compacted."""
    release, log, compaction_now = facts.target.release, facts.log, facts.path.compaction
    if compaction_now is Compaction.IMPOSSIBLE:
        yield Says("unreadable_commits", release=release)
    elif compaction_now is Compaction.NEEDED and log is not None:
        count, types = sum(log.new_types.values()), ", ".join(map(str, log.new_types))
        yield Says("compaction_needed", count=count, types=types, release=release)
    elif compaction_now is Compaction.UNKNOWN:
        yield Says("compaction_unknown", release=release)


@_rule("W18")
def apart(facts: DowngradeFacts) -> Iterator[Says]:
    """Where only brokers are replaced, controllers are nodes of their own."""
    if not facts.brokers_only:
        return
    if not facts.view.kraft:
        yield Says("all_are_brokers")
    voters = set(facts.view.quorum.voters) if facts.view.quorum else set()
    if both := [broker.node_id for broker in facts.view.brokers if broker.node_id in voters]:
        yield Says("broker_votes", brokers=both)


_STAY = "keep the release, or stop all members and commit the offsets anew after the downgrade"
_REMEDY = {
    "O1": "convert every group and compact the topic until no key of type 3 or above is left; or name 3.4.1",
    "O2": "name 3.4.1 or newer with --to; compaction does not help",
    "X1": "groupshift audit names what lies in a partition that is not the group's; commit it anew",
    "O5": "groupshift audit names what lies in a partition that is not the group's; delete the stale copies",
}


def _first(verdict: GroupVerdict) -> str:
    """The record for which a group is lost, as the end of a sentence."""
    record = verdict.record
    if record is None:
        return ""
    kind = record.type_name or f"type {record.record_type}"
    of = "" if record.group_id in {None, verdict.group_id} else f" of group {record.group_id!r}"
    tombstone = ", a tombstone" if record.is_tombstone else ""
    return f"; first: partition {record.src_partition} offset {record.src_offset}, {kind}{of}{tombstone}"


def _counted(groups: Sequence[InventoryGroup], kind: Kind) -> str:
    """How many groups of a type, and the first ones by name."""
    noun = "group" if len(groups) == 1 else "groups"
    return f"{len(groups)} {noun} of type {kind} ({_names(groups)})"


def _names(groups: Sequence[InventoryGroup]) -> str:
    """The first names of groups, each in quotes."""
    return sentence_list([repr(each.group) for each in groups], _NAMED)


def bugs(facts: DowngradeFacts) -> tuple[Finding, ...]:
    """Findings of the hazards that are met or may be. Those of members are left to the move that converts
    them (``groupshift protocol assess``), which asks what they run."""
    view, said = facts.view, str(facts.said or "")
    brokers = tuple(
        Met(where=f"broker {broker.node_id}", version=facts.version(broker), said=said)
        for broker in view.brokers
    )
    target = Met(where="target", version=facts.target.version)
    traits = {
        Trait.KRAFT: view.kraft,
        Trait.STREAMS_GROUPS: bool(of_kind(facts.groups, Kind.STREAMS)),
        Trait.NEW_COORDINATOR: facts.target.coordinator is Coordinator.NEW,
        Trait.OLD_COORDINATOR: facts.target.coordinator is Coordinator.OLD,
        Trait.METADATA_CHANGED: bool(facts.path.changes),
    }
    if not view.configs_problem:
        traits[Trait.GROUP_CONFIGS] = bool(view.group_configs)
    if facts.brokers_only:  # it is controllers that die of it; W11 asks for the brokers
        traits[Trait.GROUP_VERSION] = False
    elif view.finalised.get(GROUP) or not facts.path.snapshot:
        traits[Trait.GROUP_VERSION] = bool(view.finalised.get(GROUP))
    if facts.log is not None:
        traits[Trait.NEW_RECORDS] = bool(facts.log.new_types)
    versions = {Role.BROKER: brokers, Role.TARGET: (target,)}
    return met_hazards(Comparison.DOWNGRADE, Facts(versions=versions, traits=traits))


def ask(facts: DowngradeFacts) -> tuple[Finding, ...]:
    """What the rules say, passed ones included, what the hazard book has against this way (H…), and how
    brokers count groups (PG…), where that was asked."""
    counts = group_gauges.RULES.ask(facts.counts) if facts.counts is not None else ()
    return (*RULES.ask(facts), *bugs(facts), *counts)


_FILES = "W14"
_CURED = frozenset({"L0", "O1", "O4"})
"""Rules of the replay lint that are no harm, or that conversion and compaction cure."""


def obstacles(facts: DowngradeFacts, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings that no step of the plan answers: a run may not begin. The go/no-go asks all of them again.

    Steps answer groups of type consumer (W07), features (W11), configurations of groups (W10) where they
    could be read, hazards of all these, and with a compaction what the target cannot load (W16, W17)."""
    answered: set[str] = set()
    if facts.path.possible:
        answered |= {"W07", "W11", "H01", "H03", "H05"}
        if not facts.view.configs_problem:
            answered.add("W10")
        lost = {each.rule for each in facts.log.verdicts.values()} if facts.log else None
        if facts.path.compaction is Compaction.NEEDED and lost is not None and lost <= _CURED:
            answered |= {"W16", "W17"}
        if _droppable(facts):
            answered.add(_FILES)
    return tuple(each for each in against(findings) if each.rule not in answered)


def no_go(facts: DowngradeFacts, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings for which no broker may be touched; only what the new files leave out is left to them."""
    dropped = {_FILES} if _droppable(facts) else set[str]()
    return tuple(each for each in against(findings) if each.rule not in dropped)


def _droppable(facts: DowngradeFacts) -> bool:
    """Whether everything fatal in the brokers' files may be left out; with ZooKeeper a version must be set
    and all brokers restarted before, which no run does."""
    files = (broker.properties for broker in facts.view.brokers)
    fatal = {
        each.name for properties_of in files for each in misfits(properties_of, facts.target) if each.fatal
    }
    return facts.view.kraft and fatal <= {PROTOCOLS, ASSIGNORS}
