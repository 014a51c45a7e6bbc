"""What a broker may ask of a client that logs in with SCRAM."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any

import pytest

from groupshift.adapters.kafka.broker import LoginRefused, log_in

SETTINGS = {
    "sasl_mechanism": "SCRAM-SHA-256",
    "sasl_plain_username": "alice",
    "sasl_plain_password": "wonder-land-1",
}
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

    def messages(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(
            SaslHandshakeRequest=lambda **kept: kept, SaslAuthenticateRequest=lambda auth_bytes: auth_bytes
        )


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
        log_in(broker.ask, broker.messages, SETTINGS)
    assert len(broker.tokens) == 1, "no proof was sent"
    assert "wonder" not in str(caught.value)


def test_s17_an_empty_salt_is_refused() -> None:
    """A proof without salt can be looked up."""
    broker = Broker("s=,i=4096")
    with pytest.raises(LoginRefused, match="no salt"):
        log_in(broker.ask, broker.messages, SETTINGS)
    assert len(broker.tokens) == 1


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_s17_kafka_pythons_connections_are_held_to_the_same_bounds(mechanism: str) -> None:
    """The observers log in by its registry of mechanisms."""
    from kafka.errors import SaslAuthenticationFailedError
    from kafka.net.sasl import get_sasl_mechanism

    import groupshift.adapters.kafka.kafka_python  # noqa: F401

    login = get_sasl_mechanism(mechanism)(**{**SETTINGS, "sasl_mechanism": mechanism})
    nonce = login.auth_bytes().partition(b",r=")[2].decode()
    with pytest.raises(SaslAuthenticationFailedError, match="4096"):
        login.receive(f"r={nonce}+,s={SALT},i=1".encode())
