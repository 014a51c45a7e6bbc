"""What a broker may ask of a client that logs in with SCRAM."""

from __future__ import annotations

import base64
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from groupshift.adapters.kafka.connection_and_login import Access, LoginRefused, log_in, prove

ALICE = Access(mechanism="SCRAM-SHA-256", user="alice", password="wonder-land-1")
SALT = base64.b64encode(b"0123456789abcdef").decode()


class Broker:
    """Answers a login as a server that chooses ``told`` after its nonce."""

    def __init__(self, told: str) -> None:
        self.told = told
        self.tokens: list[bytes] = []

    def ask(self, request: Any) -> Any:
        if not isinstance(request, bytes):
            return SimpleNamespace(error_code=0, mechanisms=())
        self.tokens.append(request)
        nonce = request.partition(b",r=")[2].decode()
        return SimpleNamespace(error_code=0, error_message="", auth_bytes=f"r={nonce}+,{self.told}".encode())

    def request(self, _api: Any, **values: Any) -> Any:
        return values.get("auth_bytes", values)


@pytest.mark.parametrize(
    "told",
    [
        f"s={SALT},i=1",
        f"s={SALT},i=4095",
        f"s={SALT},i=0",
        f"s={SALT},i=-4096",
        f"s={SALT},i=1000001",
        f"s={SALT},i=99999999999999999999",
        f"s={SALT},i=+4096",
        f"s={SALT},i=٤٠٩٦",
        f"s={SALT},i=",
        f"s={SALT}",
    ],
)
def test_s17_a_count_of_iterations_out_of_bounds_is_refused_before_the_password_is_used(told: str) -> None:
    """One iteration is a guess of the password for nothing; billions are an hour of ours."""
    broker = Broker(told)
    with pytest.raises(LoginRefused, match=r"iterations of SCRAM, 4096 to 1000000 are accepted") as caught:
        log_in(broker, ALICE)
    assert len(broker.tokens) == 1, "no proof was sent"
    assert "wonder" not in str(caught.value)


def test_s17_an_empty_salt_is_refused() -> None:
    """A proof without salt can be looked up."""
    broker = Broker("s=,i=4096")
    with pytest.raises(LoginRefused, match="no salt"):
        log_in(broker, ALICE)
    assert len(broker.tokens) == 1


VECTORS = [
    pytest.param(
        "SCRAM-SHA-256",
        "rOprNGfwEbeRWgbNEkqO",
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        id="RFC 7677",
    ),
    pytest.param(
        "SCRAM-SHA-512",
        "rOprNGfwEbeRWgbNEkqO",
        "r=rOprNGfwEbeRWgbNEkqO02431b08-2f89-4bad-a4e6-80c0564ec865,"
        "s=Yin2FuHTt/M0kJWb0t9OI32n2VmOGi3m+JfjOvuDF88=,i=4096",
        "c=biws,r=rOprNGfwEbeRWgbNEkqO02431b08-2f89-4bad-a4e6-80c0564ec865,"
        "p=Hc5yec3NmCD7t+kFRw4/3yD6/F3SQHc7AVYschRja+Bc3sbdjlA0eH1OjJc0DD4ghn1tnXN5/Wr6qm9xmaHt4A==",
        "v=BQuhnKHqYDwQWS5jAw4sZed+C9KFUALsbrq81bB0mh+bcUUbbMPNNmBIupnS2AmyyDnG5CTBQtkjJ9kyY4kzmw==",
        id="as kafka-python 3.0.12 calculates",
    ),
]


@pytest.mark.parametrize(("mechanism", "nonce", "told", "proof", "signature"), VECTORS)
def test_the_exchange_is_that_of_the_rfc(
    mechanism: str, nonce: str, told: str, proof: str, signature: str
) -> None:
    """User ``user``, password ``pencil``; the server's signature is held against ours."""
    access = Access(mechanism=mechanism, user="user", password="pencil")
    sent: list[bytes] = []

    def exchange(token: bytes, last: str = signature) -> bytes:
        sent.append(token)
        return (told if token.startswith(b"n,,") else last).encode()

    prove(access, exchange, nonce=nonce)
    assert sent == [f"n,,n=user,r={nonce}".encode(), proof.encode()]
    for wrong in (f"v={SALT}", "v=", "", "e=other-error", f"{signature}=", "v=é", signature[:-4]):
        with pytest.raises(ValueError, match=r".+"):
            prove(access, partial(exchange, last=wrong), nonce=nonce)


@pytest.mark.parametrize(
    "told", [f"s={SALT},i=4096", f"r=other,s={SALT},i=4096", f"m=x,r=n+,s={SALT},i=4096", "r=n+,s=!!,i=4096"]
)
def test_a_first_message_that_is_wrong_is_refused(told: str) -> None:
    """No nonce, another's nonce, an extension that we would have to know, a salt that is no base64."""
    sent: list[bytes] = []

    def exchange(token: bytes) -> bytes:
        sent.append(token)
        return told.encode()

    with pytest.raises(ValueError, match=r".+"):
        prove(Access(mechanism="SCRAM-SHA-256", user="user", password="pencil"), exchange, nonce="n")
    assert len(sent) == 1, "no proof was sent"


def test_every_login_has_a_nonce_of_its_own_and_names_are_escaped() -> None:
    """The broker reads the name between ``n=`` and the next comma."""
    brokers = [Broker("i=1"), Broker("i=1")]
    for broker in brokers:
        with pytest.raises(LoginRefused):
            log_in(broker, replace(ALICE, user="a=b,c"))
    first, second = (broker.tokens[0] for broker in brokers)
    assert first.startswith(b"n,,n=a=3Db=2Cc,r=")
    assert first != second


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize("key", ["username", "password"])
@pytest.mark.parametrize("text", ["wonder\0land", "wonder\ud800"])
def test_texts_that_cannot_be_sent_are_refused_without_them(mechanism: str, key: str, text: str) -> None:
    """Null characters would end the name early in PLAIN."""
    broker = Broker("i=1")
    access = replace(ALICE, mechanism=mechanism, **{{"username": "user"}.get(key, key): text})
    with pytest.raises(LoginRefused, match=f"sasl.{key} has a null character or half") as caught:
        log_in(broker, access)
    assert "wonder" not in str(caught.value)
    assert not broker.tokens


@pytest.mark.parametrize("text", ["wonder\u00a0land", "won\u00adder", "\ufb01ne", "e\u0301", "wünder-漢字 1"])
def test_a_password_is_used_as_it_is(text: str) -> None:
    """Kafka's brokers keep what SASLprep would change, so a client that prepared it could not log in."""
    broker = Broker(f"s={SALT},i=4096")
    with pytest.raises(LoginRefused, match="part of SCRAM-SHA-256 is wrong"):
        log_in(broker, replace(ALICE, password=text))
    assert len(broker.tokens) == 2, "the proof was sent"
