"""What a login is read from, what is refused of it, and what it never shows."""

from __future__ import annotations

import logging

import pytest
from kazoo.protocol.serialization import Auth
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from groupshift.adapters.zookeeper.login import (
    ANYBODY,
    NoCredentials,
    make_client,
    read_login,
    read_tool_login,
)
from groupshift.errors import Rejected
from groupshift_sandbox.certificates import Certificates, make_certificates

PASSWORD = "wonder-land-1"
SASL = {"p.sasl.mechanism": "DIGEST-MD5", "p.sasl.username": "orders", "p.sasl.password": PASSWORD}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Files as a team would have them."""
    return make_certificates(tmp_path_factory.mktemp("tls"))


def problems_of(properties: dict[str, object]) -> list[str]:
    """The sentences about ``properties``."""
    problems: list[str] = []
    read_login(properties, "p.", problems)
    return problems


def test_nothing_given_is_a_session_without_credentials():
    """Other keys are not looked at, and nodes are everybody's."""
    problems: list[str] = []
    login = read_login({"sasl.username": "x", "q.ssl.ca": "y"}, "p.", problems)
    assert (login, problems, login.acl) == (ANYBODY, [], tuple(OPEN_ACL_UNSAFE))


def test_a_login_owns_what_it_creates_and_lets_all_read():
    """creator-all and world-read, by the name of the identity (§1.4)."""
    problems: list[str] = []
    login = read_login(SASL, "p.", problems)
    own, world = login.acl
    assert problems == []
    assert (own.id.scheme, own.id.id, own.acl_list) == ("sasl", "orders", ["ALL"])
    assert [world] == READ_ACL_UNSAFE
    assert make_client("127.0.0.1:1", 1.0, login).default_acl == login.acl


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"p.sasl.mechanism": "GSSAPI"}, "p.sasl.mechanism is 'GSSAPI'"),
        ({"p.sasl.mechanism": None}, "p.sasl.mechanism is ''"),
        ({"p.sasl.username": None}, "p.sasl.username is missing"),
        ({"p.sasl.password": ""}, "p.sasl.password is missing"),
        ({"p.ssl.verify": "perhaps"}, "p.ssl.verify 'perhaps'"),
        ({"p.ssl.ca": "/nowhere.pem"}, "p.ssl.ca '/nowhere.pem'"),
        ({"p.ssl.certificate": "/nowhere.pem"}, "p.ssl.key"),
        ({"p.ssl.certificate": "/nowhere.pem", "p.ssl.key": "/nowhere.pem"}, "p.ssl.certificate"),
    ],
)
def test_what_cannot_work_is_refused_by_the_name_of_its_key(change, named):
    """One sentence, with the key and without a secret."""
    (problem,) = problems_of({**SASL, **change})
    assert named in problem
    assert PASSWORD not in problem


def test_a_key_of_another_certificate_is_refused(certificates: Certificates):
    """What the client would load is loaded when the configuration is read."""
    assert problems_of({"p.ssl.certificate": str(certificates.client), "p.ssl.key": str(certificates.server)})
    given = {"p.ssl.certificate": str(certificates.client), "p.ssl.key": str(certificates.client_key)}
    assert problems_of(given) == []


def test_any_tls_key_switches_tls_on_with_verification(certificates: Certificates):
    """Nobody falls back to plain text by leaving something out."""
    problems: list[str] = []
    login = read_login({"p.ssl.ca": str(certificates.authority)}, "p.", problems)
    client = make_client("127.0.0.1:1", 1.0, login)
    assert (client.use_ssl, client.verify_certs, client.check_hostname, problems) == (True, True, True, [])
    trusting = make_client("127.0.0.1:1", 1.0, read_login({"p.ssl.verify": "false"}, "p.", problems))
    assert (trusting.use_ssl, trusting.verify_certs, trusting.check_hostname) == (True, False, False)


def test_a_missing_library_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch):
    """The extra is asked for by those only who need it."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    (problem,) = problems_of(SASL)
    assert "kafka-groupshift[sasl]" in problem


def test_the_tools_user_logs_in_by_digest():
    """Its nodes are then that user's, and SASL is not used."""
    login = read_tool_login(("operator", PASSWORD), {})
    own, world = login.acl
    assert (own.id.scheme, own.acl_list, world) == ("digest", ["ALL"], READ_ACL_UNSAFE[0])
    client = make_client("127.0.0.1:1", 1.0, login)
    assert (list(client.auth_data), client._connection.sasl_options) == (
        [("digest", f"operator:{PASSWORD}")],
        None,
    )


def test_the_tools_keys_are_all_checked():
    """An unknown one and a second login, in one sentence without a secret."""
    sasl = {key.removeprefix("p."): value for key, value in SASL.items()}
    with pytest.raises(Rejected, match=r"'ssl\.truststore' is unknown.*two logins: remove one") as refused:
        read_tool_login(("operator", PASSWORD), {**sasl, "ssl.truststore": "x"})
    assert PASSWORD not in str(refused.value)


def test_passwords_are_in_no_repr():
    """Neither that of SASL nor that of a key."""
    login = read_login({**SASL, "p.ssl.verify": "false", "p.ssl.key.password": "opened-2"}, "p.", [])
    assert (login.password, login.key_password) == (PASSWORD, "opened-2")
    assert PASSWORD not in repr(login)
    assert "opened-2" not in repr(login)


def test_a_logged_credential_is_dropped(caplog: pytest.LogCaptureFixture):
    """Only that record: others of the client stay."""
    logger = logging.getLogger("test.login")
    logger.addFilter(NoCredentials())
    with caplog.at_level(logging.DEBUG, "test.login"):
        logger.debug("Sending request(xid=%s): %s", 1, Auth(0, "digest", f"a:{PASSWORD}"))
        logger.debug("Sending request(xid=%s): %s", 2, "other")
    assert [record.args for record in caplog.records] == [(2, "other")]
