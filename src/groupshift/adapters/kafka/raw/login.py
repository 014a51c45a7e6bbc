"""Logging in at a broker: SaslHandshake, then SaslAuthenticate with the bytes of the mechanism (KIP-152)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafka.net.sasl.scram import ScramClient
from kio.schema.errors import ErrorCode

from groupshift.adapters.kafka.raw.wire import Api, raise_for

_HANDSHAKE = 1  # the first version whose tokens are sent in SaslAuthenticate (Kafka 1.0)

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


def _scram(exchange: Callable[[bytes], bytes], mechanism: str, user: str, password: str) -> None:
    """RFC 5802 by kafka-python's client, which leaves escaping the name to us; the server proves that it
    knows the password too."""
    client = ScramClient(user.replace("=", "=3D").replace(",", "=2C"), password, mechanism)
    try:
        client.process_server_first_message(exchange(client.first_message()))
        client.process_server_final_message(exchange(client.final_message()))
    except (ValueError, KeyError) as wrong:
        raise LoginRefused(f"the broker's part of {mechanism} is wrong ({type(wrong).__name__})") from None
