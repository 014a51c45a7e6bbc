"""Numbers as people, brokers and JVMs write them: other digits, too many of them, none at all."""

from __future__ import annotations

from typing import Any

import pytest

from groupshift.errors import Rejected

MANY = "9" * 5_000
OTHER = "\u00b2"  # a digit for Unicode, and no number for Python


@pytest.mark.parametrize("text", [f"4.0.0-rc{MANY}", f"{MANY}.0.0", f"3.{MANY}.2", "\u0663.\u0669.\u0662"])
def test_s03_a_version_of_other_or_too_many_digits_is_none(text: str) -> None:
    """One short sentence."""
    from groupshift.domain.versions import Version, version_in

    for read in (Version.parse, version_in):
        with pytest.raises(Rejected, match="is no version") as refused:
            read(text)
        assert len(str(refused.value)) < 300


@pytest.mark.parametrize("text", [f"{MANY}.{MANY}", f"3.{MANY}", "\u0663.\u0669"])
def test_s03_a_line_of_releases_of_other_or_too_many_digits_is_none(text: str) -> None:
    """As somebody says what runs."""
    from groupshift.domain.versions import version_in

    with pytest.raises(Rejected, match="is no version"):
        version_in(text)


@pytest.mark.parametrize("text", [OTHER, MANY, "\u0663"])
def test_s03_a_limit_that_a_broker_writes_in_other_digits_limits_nothing(text: str) -> None:
    """As one that is no number at all."""
    from groupshift.domain import group_protocol

    assert group_protocol._number(text) == 2**31 - 1


@pytest.mark.parametrize("text", [OTHER, MANY, "fifty", "", "1e3", "99999999999"])
def test_s03_a_count_that_a_broker_writes_in_other_digits_is_one_sentence(text: str) -> None:
    """It names the broker and the property."""
    from types import SimpleNamespace

    from groupshift.domain import cluster

    told: Any = SimpleNamespace(untold="", node_id=3, properties={cluster.COUNT: SimpleNamespace(value=text)})
    with pytest.raises(Rejected, match=r"offsets\.topic\.num\.partitions of broker 3") as refused:
        cluster.configured(told)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("text", [f"t:{OTHER}", f"t:{MANY}", "t:\u0663"])
def test_s13_streams_in_other_digits_are_one_sentence(text: str) -> None:
    """On the command line of a member."""
    from argparse import Namespace

    from groupshift.cli import consume

    with pytest.raises(Rejected, match=r"--topic .*1 or more streams") as refused:
        consume._subscription(Namespace(whitelist=None, blacklist=None, topic=[text]))
    assert len(str(refused.value)) < 300


ID, GROUPS = "kafka.server:type=app-info,id=1:Version=3.9.2", "x.y:type=z,name=NumGroups:Value=1"


@pytest.mark.parametrize(
    "said",
    [
        ("kafka.server:type=app-info:Version=3.9.2", GROUPS),
        (ID.replace("id=1", "id=x"), GROUPS),
        (ID.replace("id=1", f"id={MANY}"), GROUPS),
        (ID, GROUPS.replace("Value=1", "Value=NaN")),
        (ID, GROUPS.replace("Value=1", "Value=1e999")),
        (ID, GROUPS.replace("Value=1", "Value=none")),
        (ID, GROUPS.replace(",name=NumGroups", "")),
        (ID, GROUPS, "x.y:a=b:num-partitions=1"),
        (ID, GROUPS, "x.y:protocol=classic:group-count=many"),
    ],
)
def test_s13_a_jvm_that_tells_other_numbers_is_no_broker(said: tuple[str, ...]) -> None:
    """Whatever is open at that port."""
    from groupshift.adapters.kafka import group_gauges

    with pytest.raises(Rejected, match="is of no Kafka broker"):
        group_gauges.broker("h:9999", list(group_gauges.gauges("\n".join(said))))


def test_s13_a_configuration_without_end_is_one_sentence() -> None:
    """An application hands numbers of Python."""
    from groupshift.consumers.config import Reader

    read = Reader({"metrics.port": float("inf"), "a": float("-inf"), "b": float("nan")})
    for key in read.raw:
        assert read.milliseconds(key, 0) == 0
    assert len(read.problems) == 3
