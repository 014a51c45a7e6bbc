"""``groupshift consume``: what can be said without a server."""

from __future__ import annotations

import pytest

from groupshift.cli import consume

GOOD = ["--group", "g", "--topic", "t", "--bootstrap", "127.0.0.1:1", "--consumer-id", "m1-1"]


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        (["--topic", "t:0"], "--topic"),
        (["--topic", ":2"], "--topic"),
        (["--property", "novalue"], "--property"),
        ([], "zookeeper.connect"),
        (["--zookeeper", "z:1", "--consumer-id", "a b"], "consumer.id"),
    ],
)
def test_bad_input_is_one_sentence_that_names_the_field(
    extra: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, nothing was joined."""
    assert consume.main(["--kind", "migrating", *GOOD, *extra]) == 2
    captured = capsys.readouterr()
    assert named in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--kind", "plain", "--whitelist", "a.*"], "--topic"),
        (["--kind", "native", "--blacklist", "a.*"], "--topic"),
        (["--kind", "migrating", "--whitelist", "a*+", "--zookeeper", "z:1"], "topic filter"),
        (["--kind", "migrating", "--blacklist", "a", "--streams", "0", "--zookeeper", "z:1"], "stream count"),
    ],
)
def test_a_topic_filter_that_cannot_be_used_is_refused(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is joined."""
    rest = ["--group", "g", "--bootstrap", "127.0.0.1:1", "--consumer-id", "m1-1"]
    assert consume.main([*arguments, *rest]) == 2
    assert named in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "extra", "named"),
    [
        ("plain", "group.protocol=consumer", "choose the other kind"),
        ("native", "group.protocol=classic", "choose the other kind"),
        ("native", "session.timeout.ms=6000", "session.timeout.ms"),
        ("plain", "no.such.property=1", "no.such.property"),
    ],
)
def test_a_property_that_the_kind_cannot_have_is_refused(
    kind: str, extra: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one sentence, before anything is joined."""
    assert consume.main(["--kind", kind, *GOOD, "--property", extra]) == 2
    told = capsys.readouterr().err
    assert named in told
    assert told.count("\n") == 1
