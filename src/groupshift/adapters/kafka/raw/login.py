"""Logging in at a broker: SaslHandshake, then SaslAuthenticate with the bytes of the mechanism (KIP-152)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafka.net.sasl.scram import ScramClient
from kio.schema.errors import ErrorCode

from groupshift.adapters.kafka.raw.wire import Api, raise_for

_HANDSHAKE = 1  # the first version whose tokens are sent in SaslAuthenticate (Kafka 1.0)

_FEWEST_ITERATIONS, _MOST_ITERATIONS = 4_096, 1_000_000
"""RFC 7677 and Kafka's brokers demand the former; the latter takes about a second."""

Ask = Callable[[Any], Any]
MessagesOf = Callable[..., Any]


class LoginRefused(Exception):
    """The broker does not accept this mechanism, user or password; asking again would not help."""


def log_in(ask: Ask, messages: MessagesOf, settings: Mapping[str, Any]) -> None:
    """Log in with the mechanism, user and password of `client_settings`; ``messages(api, at_least=…)``
    gives kio's classes in the broker's version. Raises `LoginRefused`, which quotes no secret."""
    mechanism = settings["sasl_mechanism"]
    shake = messages(Api.SASL_HANDSHAKE, at_least=_HANDSHAKE)
    answer = ask(shake.SaslHandshakeRequest(mechanism=mechanism))
    if answer.error_code:
        offered = ", ".join(answer.mechanisms) or "none"
        raise LoginRefused(f"sasl.mechanism {mechanism} is not enabled there; enabled are: {offered}")

    def exchange(token: bytes) -> bytes:
        schema = messages(Api.SASL_AUTHENTICATE).SaslAuthenticateRequest
        told = ask(schema(auth_bytes=token))
        if told.error_code == ErrorCode.sasl_authentication_failed:
            raise LoginRefused(told.error_message or "authentication failed")
        raise_for(told.error_code, "login")
        return bytes(told.auth_bytes)

    user, password = settings["sasl_plain_username"], settings["sasl_plain_password"]
    if mechanism == "PLAIN":
        exchange(f"\0{user}\0{password}".encode())
    else:
        _scram(exchange, mechanism, user, password)


class BoundedScram(ScramClient):  # type: ignore[misc]
    """RFC 5802 by kafka-python's client. A server, or who pretends to be one, cannot choose how little a
    guess of the password costs, nor how long we calculate for it."""

    def process_server_first_message(self, server_first_message: bytes) -> None:
        """Raises `LoginRefused` for a count out of bounds or an empty salt, before the password is used."""
        told = dict(part.split("=", 1) for part in server_first_message.decode().split(",") if "=" in part)
        count = told.get("i", "")
        digits = count.isascii() and count.isdigit() and len(count) <= len(str(_MOST_ITERATIONS))
        if not digits or not _FEWEST_ITERATIONS <= int(count) <= _MOST_ITERATIONS:
            raise LoginRefused(
                f"the broker asks for {count[:12]!r} iterations of SCRAM, {_FEWEST_ITERATIONS} to "
                f"{_MOST_ITERATIONS} are accepted: fewer would let it guess the password; set the user's "
                "credential again with --add-config and iterations=4096 or more"
            )
        if not told.get("s"):
            raise LoginRefused("the broker sends no salt for SCRAM: set the user's credential again")
        super().process_server_first_message(server_first_message)


def _scram(exchange: Callable[[bytes], bytes], mechanism: str, user: str, password: str) -> None:
    """RFC 5802 by kafka-python's client, which leaves escaping the name to us; the server proves that it
    knows the password too."""
    client = BoundedScram(user.replace("=", "=3D").replace(",", "=2C"), password, mechanism)
    try:
        client.process_server_first_message(exchange(client.first_message()))
        client.process_server_final_message(exchange(client.final_message()))
    except (ValueError, KeyError) as wrong:
        raise LoginRefused(f"the broker's part of {mechanism} is wrong ({type(wrong).__name__})") from None
