"""What is refused before anything, and which steps a group still needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupshift.adapters.groups import KafkaGroupReader
from groupshift.domain.group_protocol import BrokerSettings, KafkaGroup, Kind, Policy, Protocol, ProtocolView
from groupshift.domain.modes import MemberKind
from groupshift.domain.requests import options_of, request_of
from groupshift.domain.rows import ClusterState
from groupshift.domain.run import RunState, plan_from
from groupshift.engine.begin import request_differences
from groupshift.errors import Conflict, Rejected
from groupshift.moves.protocol.facts import ProtocolPorts, ProtocolRequest
from groupshift.ports.group import BrokerSide
from support.protocol_groups import broker, classic, view
from support.simulated_runs import Processes, make_processes

PLAIN, NATIVE = MemberKind.PLAIN, MemberKind.NATIVE
UP, DOWN = Protocol.CONSUMER, Protocol.CLASSIC


class NoOffsets:
    """A cluster whose groups have committed nothing."""

    def take(self, groups: object = None, *, progress: object = None) -> ClusterState:  # noqa: ARG002 - the port's
        """See `GroupSnapshots`."""
        return ClusterState(cluster_id="c", taken_at_ms=1)

    def cluster_id(self) -> str:
        """See `GroupSnapshots`."""
        return "c"

    def close(self) -> None:
        """Nothing is open."""


class OneView:
    """A cluster whose brokers always answer the same."""

    def __init__(self, seen: ProtocolView) -> None:
        self._view = seen

    def look(self, group: str) -> ProtocolView:  # noqa: ARG002 - the port's
        """See `ProtocolViews`."""
        return self._view

    def close(self) -> None:
        """Nothing is open."""


class Looks(Processes):
    """Processes that meet this group at these brokers."""

    seen: Any = None

    def ports(self) -> ProtocolPorts:
        """See `Processes`."""
        found = Processes.ports(self)
        reader = KafkaGroupReader(OneView(self.seen), NoOffsets())
        return replace(found, side=BrokerSide(replace(found.side, groups=reader)))


def refused(seen: Any, **values: Any) -> str:
    """What a plan of group g ends with over a cluster that looks so; the journal stays empty."""
    made = make_processes(PLAIN)
    shared = ("clock", "world", "fleet", "evidence", "proof")
    looks = Looks(**{each: getattr(made, each) for each in shared})
    looks.seen, looks.fleet.pending = seen, True
    with pytest.raises(Rejected) as found:
        looks.begin(**{"group": "g", "to": UP, "driver": "manual", **values})
    assert looks.runs.recent(9) == ()
    return str(found.value)


def of_kind(kind: Kind) -> KafkaGroup:
    """The group g, of this type."""
    return KafkaGroup(group="g", kind=kind, state="Stable")


OLD_BROKER = broker(None, features={}, heartbeats=-1, listings=4, descriptions=5)


@pytest.mark.parametrize(
    ("group", "brokers", "said"),
    [
        (of_kind(Kind.SHARE), (), ("group g is a share group", "leave it out")),
        (of_kind(Kind.STREAMS), (), ("group g is a streams group", "leave it out")),
        (classic(2, protocol_type="connect"), (), ("group g is of protocol type connect", "leave it out")),
        (of_kind(Kind.ABSENT), (), ("no broker knows group g", "check the name")),
        (
            classic(),
            (broker(), OLD_BROKER),
            ("native members are served", "broker 2", "bring all brokers to one release"),
        ),
        (classic(), (broker(Policy.DISABLED),), ("P08", "group.consumer.migration.policy", "--offline")),
    ],
)
def test_a_move_that_cannot_be_made_is_refused(
    group: KafkaGroup, brokers: tuple[BrokerSettings, ...], said: tuple[str, ...]
) -> None:
    """Whatever the group or its brokers are that it cannot be made with."""
    sentence = refused(view(group, *brokers))
    assert all(each in sentence for each in said), sentence


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"client": ("confluent-kafka=two",)}, "--client confluent-kafka 'two' is no version"),
        ({"broker": ("four",)}, "--broker 'four' is no version"),
        ({"group": ""}, "group '' has 0 characters"),
        ({"offline": True, "canary_only": True}, "canary_only does not fit offline"),
        ({"offline": True, "driver": "kubernetes"}, "driver kubernetes keeps no place empty"),
    ],
)
def test_a_value_that_does_not_fit_is_named(values: dict[str, Any], said: str) -> None:
    """With what would be right."""
    assert said in refused(view(classic()), **values)


def test_values_of_a_form_are_named_in_one_sentence() -> None:
    """Each with what it may be."""
    with pytest.raises(Rejected, match=r"to is missing.*canary 0 is below 1.*soak 'long' is not") as found:
        request_of(ProtocolRequest, {"group": "g", "canary": 0, "soak": "long"})
    assert "give it with --to" in str(found.value)
    assert [each.flag for each in options_of(ProtocolRequest)] == [
        "--group",
        "--to",
        "--offline",
        "--driver",
        "--canary",
        "--canary-only",
        "--soak",
        "--client",
        "--broker",
    ]


def test_a_canary_that_is_larger_than_the_group_is_refused(group: Processes) -> None:
    """Nothing is journaled."""
    with pytest.raises(Rejected, match="canary 9 is more than the 3 members"):
        group.begin(to=UP, canary=9)
    assert group.runs.recent(9) == ()


def test_a_group_that_speaks_it_already_has_nothing_to_move() -> None:
    """The sentence says so."""
    with pytest.raises(Rejected, match="all its 3 members speak it"):
        make_processes(NATIVE).begin(to=UP)


def test_a_plan_has_the_phases_that_the_group_needs(group: Processes) -> None:
    """Online one after the other, offline all at once; a second run takes who is left."""
    plans = {}
    for name, values in (
        ("online", {}),
        ("two first", {"canary": 2}),
        ("canary only", {"canary_only": True}),
        ("offline", {"offline": True}),
    ):
        plan = plan_from(group.runs.find(group.begin(to=UP, execute=False, **values)).plan)
        group.clock.sleep(1)
        acts = [each for each in plan.steps if each.kind == "replace_members"]
        plans[name] = {each.phase: (each.args["slots"], each.args["new"]) for each in acts}
        assert [each.phase for each in plan.steps if each.kind == "soak"] == ["soak"]
        assert plan.about["slots"] == ["m1", "m2", "m3"]
    assert plans == {
        "online": {"canary": (["m1"], "native"), "roll": (["m2", "m3"], "native")},
        "two first": {"canary": (["m1", "m2"], "native"), "roll": (["m3"], "native")},
        "canary only": {"canary": (["m1"], "native")},
        "offline": {"empty": (["m1", "m2", "m3"], "vacant"), "fill": (["m1", "m2", "m3"], "native")},
    }


def test_every_act_is_measured_before_and_after_it(group: Processes) -> None:
    """In one order; each comparison names a snapshot that was taken before."""
    for offline in (False, True):
        plan = plan_from(group.runs.find(group.begin(to=UP, execute=False, offline=offline)).plan)
        group.clock.sleep(1)
        kinds = [each.kind for each in plan.steps]
        measured = ["snapshot", "compare", "judge"]
        assert kinds[0] == "approve"
        for at in range(1, len(kinds), 7):
            assert kinds[at : at + 3] == kinds[at + 4 : at + 7] == measured
        taken = set()
        for each in plan.steps:
            taken |= {each.subject} if each.kind == "snapshot" else set()
            assert each.kind != "compare" or {each.args["base"], each.args["with"]} <= taken
    filled = [each for each in plan.steps if each.name == "fill/compare after"]
    assert [each.args["base"] for each in filled] == ["before empty"]
    assert filled[0].args["members"]["old"] == "plain"


def test_a_driver_that_knows_no_places_gets_the_members_as_places(group: Processes) -> None:
    """By the names that people know."""
    group.fleet.pending = True
    plan = plan_from(group.runs.find(group.begin(to=UP, execute=False, driver="manual")).plan)
    assert plan.about["slots"] == [group.world.identity(place) for place in ("m1", "m2", "m3")]
    assert plan.about["driver"] == "manual"


def test_a_request_without_a_driver_gets_the_one_in_the_settings(group: Processes) -> None:
    """It is part of the plan that people approve."""
    plan = plan_from(group.runs.find(group.begin(to=UP, execute=False)).plan)
    assert plan.about["driver"] == group.terms.driver == "process"


def test_a_group_has_one_open_run_and_previews_lock_nothing(group: Processes) -> None:
    """The sentence names the run in the way; the same Airflow run gets its own again."""
    preview = group.begin(to=UP, execute=False)
    assert group.state(preview) is RunState.PREVIEW
    group.clock.sleep(1)
    name = group.begin(to=UP, origin="dag/run-1")
    with pytest.raises(Conflict, match=f"run {name}"):
        group.begin(to=UP)
    assert group.begin(to=UP, origin="dag/run-1") == name
    differs = request_differences(group.runs.find(name), group.request(to=UP, canary=2))
    assert differs == ("canary: the run has 1, asked for is 2",)


def test_a_rule_that_cannot_be_measured_forbids_a_run(group: Processes) -> None:
    """A group that is read in part proves nothing."""
    live, request = group.move.look(group.ports(), group.request(to=UP)), group.request(to=UP)
    view = replace(live.facts.view, problems=("offsets of orders-0 could not be read",))
    partly = replace(live, facts=replace(live.facts, view=view))
    bad = [group.move.obstacles(request, each, group.move.assess(request, each)) for each in (live, partly)]
    assert [[finding.rule for finding in each] for each in bad] == [[], ["PR02"]]
