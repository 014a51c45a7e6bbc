"""Where brokers have JMX open, assess holds their counts of groups against their lists."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from groupshift.domain.group_gauges import GaugedBroker
from groupshift.domain.group_protocol import Kind
from groupshift.engine.begin import assess
from groupshift.errors import Transient
from groupshift.moves.downgrade.facts import DowngradeRequest
from support.simulated_downgrade import driver_of, two_of_43

LISTED = 1


@dataclass
class Gauges:
    """What broker 1 counts, look after look."""

    told: tuple[int, ...]
    asked: list[str] = field(default_factory=list)

    def read(self, address: str) -> GaugedBroker:
        self.asked.append(address)
        types = {Kind.CONSUMER: 1, Kind.CLASSIC: self.told[min(len(self.asked), len(self.told)) - 1]}
        return GaugedBroker(
            address=address, node_id=1, release="4.3.1", types=types, states={}, partitions={"active": 10}
        )


class Silent:
    """No broker has JMX open."""

    def read(self, address: str) -> GaugedBroker:
        raise Transient(f"nobody answers at {address}")


def counted(
    gauges: object, patience_s: float = 0, *, jmx: tuple[str, ...] = ("h:9999",), loads: bool = False
) -> dict[str, str]:
    """The worst verdict of each rule of counts."""
    world = two_of_43()
    world.loading = 9 if loads else 0
    driver = driver_of(world)
    request = DowngradeRequest(to="3.9.2", from_="4.3.1", jmx=jmx)
    ports = replace(driver.ports, gauges=gauges)
    facts, findings = assess(driver.move, driver.tools(), ports, request, patience_s=patience_s)
    shown = driver.move.observed(request, facts).data["counts"]
    assert [each["node"] for each in shown] == ([1, 2] if jmx else [])
    return {each.rule: each.verdict.value for each in findings if each.rule.startswith("PG")}


def test_one_look_says_what_differs() -> None:
    """A broker that counts other groups than it lists fails."""
    assert counted(Gauges((0,)))["PG01"] == "fail"
    assert counted(Gauges((LISTED,)))["PG01"] == "pass"


def test_it_is_looked_again_until_nothing_differs() -> None:
    """As long as only counts are against the downgrade, and within the patience."""
    gauges = Gauges((0, 0, LISTED))
    assert counted(gauges, 90)["PG01"] == "pass"
    assert gauges.asked == ["h:9999"] * 3


def test_a_broker_that_loads_is_said_to_load() -> None:
    """It lists none of its groups yet: that is no count that differs."""
    verdicts = counted(Gauges((LISTED,)), loads=True)
    assert (verdicts["PG01"], verdicts["PG03"]) == ("pass", "fail")


def test_nobody_is_asked_where_no_port_is_named() -> None:
    """No rule of counts speaks."""
    assert counted(Silent(), jmx=()) == {}
