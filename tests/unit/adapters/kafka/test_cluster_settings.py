"""librdkafka's security keys, as the Python client takes them."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from groupshift.adapters.kafka.cluster import access_of
from groupshift.adapters.kafka.connection_and_login import Access
from groupshift.errors import Rejected

SECRET = "wonder-land-1"
LOGIN = {"sasl.username": "alice", "sasl.password": SECRET}


def test_without_properties_nothing_is_protected() -> None:
    """As librdkafka's defaults."""
    assert access_of({}) == Access()


@pytest.mark.parametrize("key", ["sasl.mechanism", "sasl.mechanisms"])
def test_a_login_is_taken_over(key: str) -> None:
    """Under both names that librdkafka has for the mechanism, in any case."""
    assert access_of({"security.protocol": "sasl_plaintext", key: "scram-sha-512", **LOGIN}) == Access(
        mechanism="SCRAM-SHA-512", user="alice", password=SECRET
    )


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, (True, ssl.CERT_REQUIRED)),
        ({"ssl.ca.location": "probe"}, (True, ssl.CERT_REQUIRED)),
        ({"ssl.endpoint.identification.algorithm": "none"}, (False, ssl.CERT_REQUIRED)),
        ({"enable.ssl.certificate.verification": "false"}, (False, ssl.CERT_NONE)),
    ],
)
def test_tls_verifies_certificate_and_host_unless_told_otherwise(
    properties: dict[str, str], expected: tuple[bool, ssl.VerifyMode]
) -> None:
    """TLS 1.2 is the least."""
    context = access_of({"security.protocol": "SSL", **properties}).tls
    assert context is not None
    assert (context.check_hostname, context.verify_mode) == expected
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"ssl.key.password.typo": SECRET}, "'ssl.key.password.typo' means nothing"),
        ({"ssl.keystore.password": SECRET}, "'ssl.keystore.password' means nothing"),
        ({"security.protocol": "TLS"}, "security.protocol is 'TLS'; choose one of PLAINTEXT"),
        ({"security.protocol": "SASL_SSL", **LOGIN}, "sasl.mechanism is ''; choose one of PLAIN"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "sasl.mechanism is 'GSSAPI'"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.password": SECRET},
            "sasl.username is missing",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "alice"},
            "sasl.password is missing",
        ),
        ({"security.protocol": "SSL", "ssl.ca.location": "no-such.pem"}, "cannot be loaded .No such file"),
        ({"security.protocol": "SSL", "ssl.ca.pem": SECRET}, "cannot be loaded"),
        (
            {"security.protocol": "SSL", "enable.ssl.certificate.verification": "maybe"},
            "enable.ssl.certificate.verification is 'maybe'",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(properties: dict[str, str], said: str) -> None:
    """It names the key and what to choose, and quotes no secret."""
    with pytest.raises(
        Rejected, match=rf"a property of \[kafka\.properties\] cannot be used: .*{said}"
    ) as caught:
        access_of(properties)
    assert SECRET not in str(caught.value)


def test_a_key_file_that_is_none_is_refused_without_asking_on_the_terminal(tmp_path: Path) -> None:
    """The sentence tells what the files must be."""
    wrong = tmp_path / "client.pem"
    wrong.write_text("-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n")
    properties = {"security.protocol": "SSL", "ssl.certificate.location": str(wrong)}
    with pytest.raises(Rejected, match="they must be PEM"):
        access_of(properties)


@pytest.mark.parametrize(
    "told", [{"ssl.ca.pem": f"{SECRET} é"}, {"ssl.ca.location": "/ca\0.pem"}, {"ssl.key.location": "/k\0"}]
)
def test_f07_texts_that_are_no_pem_or_no_path_are_one_sentence(told: dict[str, str]) -> None:
    """As extra fields may hold them: not ASCII, or with a null byte."""
    files = {"ssl.certificate.location": "/c"} if "ssl.key.location" in told else {}
    with pytest.raises(Rejected, match=r"cannot be loaded .*they must be PEM") as caught:
        access_of({"security.protocol": "SSL", **files, **told})
    assert SECRET not in str(caught.value)
