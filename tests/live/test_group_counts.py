"""What a broker publishes of its groups by JMX, against what it lists (KIP-915's test plan)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from counted_groups import WITHIN_S, counts, make_groups, open_cluster, verdicts
from groupshift.cli.main import main
from groupshift.sandbox.kraft import KraftCluster


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KraftCluster]:
    """A 4.3.1 with JMX on 127.0.0.1."""
    with open_cluster(tmp_path_factory.mktemp("counts"), "4.3.1") as cluster:
        yield cluster


def test_counts_agree_with_the_list_once_the_broker_has_counted(
    opened: KraftCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty broker agrees; groups that were just made are counted within the minute, by type and state."""
    code, document = counts(opened, capsys)
    (broker,) = document["brokers"]
    assert (code, broker["node"], broker["release"], broker["coordinator"]) == (0, 1, "4.3.1", "new")
    assert (broker["listed"], set(broker["counted"].values())) == ({}, {0})
    made = make_groups(opened.bootstrap, native=True)
    code, document = counts(opened, capsys, "--within", str(WITHIN_S))
    (broker,) = document["brokers"]
    assert broker["listed"] == made
    assert {kind: count for kind, count in broker["counted"].items() if count} == made
    assert (code, set(verdicts(document).values())) == (0, {"pass"})
    assert broker["partitions"]["active"] > 0


def test_a_port_that_is_no_jmx_of_a_broker_is_refused(
    opened: KraftCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody there: 4. No JMX address at all: 2."""
    servers = ["--bootstrap-servers", opened.bootstrap]
    assert main(["protocol", "counts", *servers, "--jmx", "127.0.0.1:1"]) == 4
    assert "nobody answers at 127.0.0.1:1" in capsys.readouterr().err
    assert main(["protocol", "counts", *servers]) == 2
    assert "--jmx HOST:PORT" in capsys.readouterr().err
