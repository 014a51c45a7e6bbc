"""From librdkafka's security keys, which `[kafka.properties]` is written in, to kafka-python's settings."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from groupshift.domain.addresses import PROTOCOLS, login_problem
from groupshift.errors import Rejected

_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
KEYS = frozenset(
    {
        "client.id",
        "security.protocol",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.crl.location",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
    }
)
"""Every key that says how to connect and log in."""


def client_settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """Settings of kafka-python that mean the same as these librdkafka ``properties``.

    Raises `Rejected` for a key without equivalent, a value that is none of its choices, a missing
    user name or password, a login or certificates that the protocol does not use, and files that cannot be
    loaded; no sentence quotes a secret.
    """
    unknown = sorted(set(properties) - KEYS)
    if unknown:
        raise _unusable(f"{unknown[0]!r} means nothing to an observer; known are {', '.join(sorted(KEYS))}")
    without_effect = login_problem(properties)
    if without_effect:
        raise _unusable(without_effect)
    protocol = _choice("security.protocol", properties.get("security.protocol") or "PLAINTEXT", PROTOCOLS)
    settings: dict[str, Any] = {
        "client_id": properties.get("client.id", "groupshift"),
        "security_protocol": protocol,
    }
    if protocol.startswith("SASL"):
        settings |= _login(properties)
    if protocol.endswith("SSL"):
        settings["ssl_context"] = _tls(properties)
    return settings


def _unusable(why: str) -> Rejected:
    return Rejected(f"a property of [kafka.properties] cannot be used: {why}")


def _choice(key: str, value: str, choices: tuple[str, ...]) -> str:
    if value.upper() not in choices:
        raise _unusable(f"{key} is {value!r}; choose one of {', '.join(choices)}")
    return value.upper()


def _login(properties: Mapping[str, str]) -> dict[str, Any]:
    mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or ""
    settings = {"sasl_mechanism": _choice("sasl.mechanism", mechanism, _MECHANISMS)}
    for key, name in (("sasl.username", "sasl_plain_username"), ("sasl.password", "sasl_plain_password")):
        if not properties.get(key):
            raise _unusable(f"{key} is missing; {mechanism} needs sasl.username and sasl.password")
        settings[name] = properties[key]
    return settings


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        _load(context, properties)
    except (OSError, ValueError, TypeError) as wrong:  # the latter two: of texts that are no path or no PEM
        said = getattr(wrong, "strerror", None) or type(wrong).__name__
        raise _unusable(
            f"the files that the ssl keys name cannot be loaded ({said}); "
            "they must be PEM, and ssl.key.password that of the key"
        ) from None
    if (
        _choice("ssl.endpoint.identification.algorithm", _identification(properties), ("HTTPS", "NONE"))
        == "NONE"
    ):
        context.check_hostname = False
    verification = properties.get("enable.ssl.certificate.verification", "true")
    if _choice("enable.ssl.certificate.verification", verification, ("TRUE", "FALSE")) == "FALSE":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _identification(properties: Mapping[str, str]) -> str:
    return properties.get("ssl.endpoint.identification.algorithm") or "https"


def _load(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    trusted, pem = properties.get("ssl.ca.location"), properties.get("ssl.ca.pem")
    if pem:
        context.load_verify_locations(cadata=pem)
    if trusted and trusted != "probe":
        _trust(context, trusted)
    elif not pem:
        context.load_default_certs()
    if properties.get("ssl.crl.location"):
        context.load_verify_locations(properties["ssl.crl.location"])
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if properties.get("ssl.certificate.location"):
        context.load_cert_chain(
            properties["ssl.certificate.location"],
            properties.get("ssl.key.location"),
            # A text even where there is none: OpenSSL would ask for it on the terminal.
            properties.get("ssl.key.password", ""),
        )


def _trust(context: ssl.SSLContext, location: str) -> None:
    """A file of certificates, or a folder of them under their hashes."""
    try:
        context.load_verify_locations(cafile=location)
    except IsADirectoryError:
        context.load_verify_locations(capath=location)
