"""What does not hold up an expansion although a snapshot names it, and counts and names at their bounds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from groupshift.application.expansion_run import begin, go_on, plan_run
from groupshift.application.run_engine import Ended
from groupshift.cli.main import main
from groupshift.domain.placement import partition_of, probe_names
from groupshift.domain.rows import LISTED_TOO, ClusterState, Committed, ProblemRow
from groupshift.errors import Rejected
from groupshift.log.releases import Coordinator
from support.placement_clusters import leading
from support.simulated_downgrade import yes
from support.simulated_expansion import GROUPS, Expansible, committed, tools_of

STAYS = next(each for each in GROUPS if partition_of(each, 5) == partition_of(each, 8))
MOVES = next(each for each in GROUPS if partition_of(each, 5) != partition_of(each, 8))


class Twice:
    """The same reader; another broker lists this group, too."""

    def __init__(self, world: Expansible, group: str) -> None:
        self._world, self._group = world, group

    def take(self, *given: object, **named: object) -> ClusterState:
        """See the port."""
        found = self._world.take(*given, **named)  # type: ignore[arg-type]
        said = ProblemRow(group=self._group, problem=f"broker 1{LISTED_TOO}2")
        return replace(found, problems=[*found.problems, said])

    def committed(self, groups: Collection[str]) -> Committed:
        """See the port."""
        return self._world.committed(groups)

    def cluster_id(self) -> str:
        """See the port."""
        return self._world.cluster_id()


@pytest.mark.parametrize(("group", "ended"), [(STAYS, Ended.DONE), (MOVES, Ended.FAILED)])
def test_residue_of_a_group_that_stays_holds_up_nothing(group: str, ended: Ended) -> None:
    """Of one that moves the deletion could not be proven."""
    world = committed(Coordinator.NEW)
    tools = replace(tools_of(world), reader=Twice(world, group))
    assert go_on(tools, yes(), begin(tools, plan_run(tools, 8))).ended is ended


def test_a_count_that_no_cluster_takes_is_refused() -> None:
    """Before anything is made of it."""
    with pytest.raises(Rejected, match=r"--to 100001: no cluster takes more than 100,000 partitions"):
        plan_run(tools_of(committed(Coordinator.NEW)), 100_001)


@pytest.mark.parametrize("hours", ["inf", "nan"])
def test_a_time_that_is_none_is_refused(hours: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the option, before a broker is asked."""
    where = ("--bootstrap-servers", "127.0.0.1:1", "--timeout", "1")
    assert main(["repair", "placement", "--within", hours, *where]) == 2
    assert "--within" in capsys.readouterr().err


@pytest.mark.parametrize("count", [31, 62, 93, 310])
def test_probes_hit_every_partition_where_31_divides_the_count(count: int) -> None:
    """31 is the factor of Java's hash: names that only count up do not."""
    names = probe_names(leading(count))
    assert {partition_of(each, count) for each in names} == set(range(count))
