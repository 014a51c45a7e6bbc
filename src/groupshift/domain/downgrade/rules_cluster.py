"""Rules of the preflight of a downgrade about brokers, controllers, features and configurations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from groupshift.domain.cluster import Asked
from groupshift.domain.downgrade.facts import DowngradeFacts
from groupshift.domain.downgrade.path import Compaction, Standing
from groupshift.domain.downgrade.properties import INTER_BROKER, Misfit, misfits
from groupshift.domain.facts import Complaint, sentence_list
from groupshift.domain.verdict import Verdict
from groupshift.domain.versions import METADATA, name_of

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
