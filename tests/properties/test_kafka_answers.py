"""Answers of brokers: right ones are read whole, spoiled ones end with an error of ours (S5)."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from kio.index import load_response_schema

from groupshift.adapters.kafka import wire
from groupshift.adapters.kafka.wire import Api, Malformed

INPUTS = int(os.environ.get("GROUPSHIFT_FUZZ", "10000"))
MEMORY = 3 * 1024**3
"""Address space of a process that decodes: Python with kio takes some 300 MiB of it."""
_DECODE = f"""
import resource, sys
from kio.index import load_response_schema
from groupshift.adapters.kafka.wire import Malformed, decoded
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
try:
    decoded(load_response_schema(int(sys.argv[1]), int(sys.argv[2])), bytes.fromhex(sys.argv[3]))
except Malformed as wrong:
    print("refused:", wrong)
"""
_CONNECT = f"""
import resource, sys
from groupshift.adapters.kafka.connection_and_login import Access, BrokerConnection
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
try:
    BrokerConnection("127.0.0.1", int(sys.argv[1]), Access(timeout_s=5))
except OSError as wrong:
    print("refused:", wrong)
"""
HUGE = "7fffffff"
HOSTILE = [
    pytest.param(Api.API_VERSIONS, 4, "00000001 0000 ffffffff0f 00000000", id="versions"),
    pytest.param(Api.API_VERSIONS, 0, f"00000001 0000 {HUGE} 0000", id="versions, legacy"),
    pytest.param(Api.API_VERSIONS, 4, "00000001 0000 01 00000000 01 00 06 ffffffff0f 00", id="features"),
    pytest.param(Api.SASL_HANDSHAKE, 1, f"00000001 0021 {HUGE} 0001 61", id="mechanisms"),
    pytest.param(Api.METADATA, 9, "00000001 00 00000000 ffffffff0f 00", id="brokers"),
    pytest.param(Api.METADATA, 9, "00000001 00 00000000 01 00 00000000 ffffffff0f 00", id="topics"),
    pytest.param(Api.FIND_COORDINATOR, 4, "00000001 00 00000000 ffffffff0f 00", id="coordinators"),
    pytest.param(Api.OFFSET_FETCH, 8, "00000001 00 00000000 02 02 67 ffffffff0f 0000 00", id="offsets"),
    pytest.param(Api.LIST_GROUPS, 4, "00000001 00 00000000 0000 ffffffff0f 00", id="groups"),
    pytest.param(Api.DESCRIBE_GROUPS, 0, f"00000001 {HUGE} 0000", id="described, legacy"),
]


def _said_by(program: str, *words: str) -> str:
    """What a process of its own prints: one that is refused memory by the system would be gone."""
    ended = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-500:]
    return ended.stdout


@contextmanager
def stranger(answer: bytes) -> Iterator[int]:
    """The port of a listener that gives whoever asks these bytes and waits until he leaves."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            opened, _ = listening.accept()
            with opened:
                opened.recv(4096)
                opened.sendall(answer)
                opened.settimeout(10)
                with suppress(ConnectionResetError):
                    while opened.recv(4096):
                        pass

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield listening.getsockname()[1]
        serving.join(20)
        assert not serving.is_alive()


@pytest.mark.parametrize(("api", "version", "body"), HOSTILE)
def test_s05_a_count_beyond_the_answer_is_refused_before_memory_is_asked_for(
    api: Api, version: int, body: str
) -> None:
    """The process lives on, and the sentence says how many items do not fit."""
    said = _said_by(_DECODE, str(int(api)), str(version), body)
    assert said.startswith("refused: ")
    assert "do not fit into the" in said


def test_s05_the_first_answer_of_a_stranger_ends_the_connection_only() -> None:
    """23 bytes in all, before any login."""
    body = bytes.fromhex("00000001 0000 ffffffff0f 0000000000000000")
    with stranger(len(body).to_bytes(4, "big") + body) as port:
        assert "do not fit into the" in _said_by(_CONNECT, str(port))


def test_s05_a_large_answer_before_the_login_is_not_taken() -> None:
    """Nobody who has not told his versions gets 64 KiB of memory."""
    with stranger((64 * 1024 + 1).to_bytes(4, "big") + bytes(64 * 1024 + 1)) as port:
        assert "an answer of 65537 bytes is none of Kafka's" in _said_by(_CONNECT, str(port))


def test_s05_the_log_says_which_broker_is_asked_before_it_answers(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever finds a process dead finds the address in its log."""
    from groupshift.adapters.kafka.connection_and_login import Access, BrokerConnection

    body = bytes(5)
    with caplog.at_level("INFO"), stranger(len(body).to_bytes(4, "big") + body) as port:
        with pytest.raises(Malformed):
            BrokerConnection("127.0.0.1", port, Access(timeout_s=5))
        assert f"127.0.0.1:{port}" in caplog.text


def test_right_answers_of_every_version_are_walked_to_their_end_and_decoded() -> None:
    """What kio writes is what the walk accepts, to the byte."""
    from groupshift.adapters.kafka.bounds import hold
    from support.kafka_answers import body_of, schemas, some

    chance = random.Random(1)
    walked = 0
    for schema in schemas():
        for _ in range(20):
            message = some(schema, chance)
            body = body_of(message, chance)
            after = hold(schema.__header_schema__, body, 0)
            assert hold(schema, body, after) == len(body), schema
            assert wire.decoded(schema, body)[1] == message
            walked += 1
    assert walked > 1000


def test_s05_spoiled_answers_end_with_an_error_of_ours() -> None:
    """As many as GROUPSHIFT_FUZZ says, 10,000 without it; a process of its own, for it must survive them."""
    program = f"from support.kafka_answers import endure; print(endure({INPUTS}, {MEMORY}))"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, "tests"])},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-2000:]
    read, refused = map(int, ended.stdout.split())
    assert read + refused == INPUTS
    assert refused > INPUTS // 4
    assert load_response_schema(Api.METADATA, 9)
