"""Rules of the preflight about brokers: one coordinator, equal settings, and the answers they will give."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from groupshift.domain.facts import Complaint, sentence_list
from groupshift.domain.group_protocol import ALIKE, POLICY, PROTOCOLS, Kind, Protocol, ProtocolView, Way
from groupshift.domain.protocol.answers import Answer, Outcome
from groupshift.domain.protocol.facts import ProtocolFacts
from groupshift.domain.protocol.forecast import forecast, way_back
from groupshift.domain.verdict import Verdict

_DECISIVE = frozenset({POLICY, PROTOCOLS})


def told(facts: ProtocolFacts) -> Iterator[Complaint]:
    """Every broker tells its settings."""
    for broker in facts.view.brokers:
        if broker.settings.untold:
            yield (
                Verdict.ERROR,
                f"broker {broker.node_id} does not tell its configuration: {broker.settings.untold}",
                "allow DescribeConfigs on the cluster to this login",
            )


def alike(facts: ProtocolFacts) -> Iterator[Complaint]:
    """Whichever broker coordinates the group reads its own settings (group-coordinator.md §5.1)."""
    brokers = facts.view.brokers
    serving = _by_value(("no" if each.settings.serves else "yes", each.node_id) for each in brokers)
    releases = _by_value((_release(each.settings.heartbeats, each.settings.descriptions), each.node_id)
                         for each in brokers)  # fmt: skip
    if len(serving) > 1:
        yield (
            Verdict.FAIL,
            f"native members are served: {_said(serving)}; one whose coordinator moves there dies with 35",
            "bring all brokers to one release and one configuration first",
        )
    elif len(releases) > 1:
        reason = f"the brokers are of several releases: {_said(releases)}"
        yield Verdict.INCONCLUSIVE, reason, "finish the brokers' update first"
    for name in ALIKE:
        values = _by_value((each.settings.properties.get(name, "unset"), each.node_id) for each in brokers)
        if len(values) > 1:
            verdict = Verdict.FAIL if name in _DECISIVE else Verdict.INCONCLUSIVE
            yield verdict, f"{name} is {_said(values)}", "give all brokers the same value"


def one_coordinator(facts: ProtocolFacts) -> Iterator[Complaint]:
    """All brokers name the same, it alone lists the group, and none is loading."""
    for reason in disagreements(facts.view):
        yield Verdict.ERROR, reason, "wait until the brokers agree, then assess again"


def disagreements(view: ProtocolView) -> Iterator[str]:
    """What brokers say differently about who coordinates the group."""
    loading = [str(broker.node_id) for broker in view.brokers if broker.loading]
    if loading:
        yield f"broker {sentence_list(loading)} is loading coordinator partitions"
    silent = [str(broker.node_id) for broker in view.brokers if broker.coordinator is None]
    if silent:
        yield f"broker {sentence_list(silent)} names no coordinator"
    named = view.coordinators
    if len(named) > 1:
        each = [f"{node} (broker {', '.join(map(str, by))})" for node, by in sorted(named.items())]
        yield f"brokers name several coordinators: {sentence_list(each)}"
    lists = [broker.node_id for broker in view.brokers if broker.lists is not None]
    others = [str(node) for node in lists if node != view.group.coordinator]
    if others:
        yield f"broker {sentence_list(others)} lists the group without coordinating it"


def served(facts: ProtocolFacts) -> Iterator[Complaint]:
    """The consumer protocol is on at every broker: the coordinator may move to any."""
    if facts.to is not Protocol.CONSUMER:
        return
    for broker in facts.view.brokers:
        if broker.settings.serves:
            yield (
                Verdict.FAIL,
                f"broker {broker.node_id} serves no native members: {broker.settings.serves}",
                "brokers from 4.0 on with group.version finalised at 1 and consumer in their protocols do",
            )


def predicted(facts: ProtocolFacts) -> Iterator[Complaint]:
    """What the coordinator will answer, by number of its row; refused or not the type that is wanted."""
    for answer in forecast(facts.to, facts.way, facts.group, facts.view.settings):
        yield _judged(answer, facts.to), _sentence(answer), answer.remedy


def back(facts: ProtocolFacts) -> Iterator[Complaint]:
    """Whether the way back is open while the group is consumed."""
    if facts.to is not Protocol.CONSUMER or facts.way is Way.OFFLINE or facts.group.empty:
        return
    for answer in way_back(facts.group, facts.view.settings):
        if _judged(answer, Protocol.CLASSIC) is Verdict.FAIL:
            reason = f"the way back is open offline only: {_sentence(answer)}"
            yield Verdict.INCONCLUSIVE, reason, answer.remedy


def _judged(answer: Answer, to: Protocol) -> Verdict:
    if answer.outcome is Outcome.UNKNOWN:
        return Verdict.ERROR
    if answer.refused or (answer.outcome is Outcome.STAYS and to is Protocol.CLASSIC):
        return Verdict.FAIL
    return Verdict.PASS


def _sentence(answer: Answer) -> str:
    code = f" with error {answer.code}" if answer.code else ""
    client = f"; {answer.client}" if answer.client else ""
    kind = f" ({answer.kind})" if answer.kind not in {None, Kind.ABSENT} else ""
    return f"{answer.number}, {answer.event}: {answer.outcome}{code}{kind}, for {answer.reason}{client}"


def _release(heartbeats: int, descriptions: int) -> str:
    if heartbeats >= 1:
        return "4.0 or newer"
    return "3.7 to 3.9" if heartbeats == 0 else f"older (DescribeGroups {descriptions})"


def _by_value(pairs: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for value, node in pairs:
        found[value].append(node)
    return found


def _said(values: dict[str, list[int]]) -> str:
    return sentence_list([f"{value} at broker {', '.join(map(str, at))}" for value, at in values.items()])
