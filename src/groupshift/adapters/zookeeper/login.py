"""How a client logs in at ZooKeeper, consumer or tool: SASL DIGEST-MD5, TLS, and the ACL that follows.

Source: docs/reference/zookeeper-coordination.md §1.4; ``docs/safety/logins.md`` lists the keys.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import ssl
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import NoAuthError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import Auth
from kazoo.security import ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_acl, make_digest_acl

from groupshift.errors import Rejected

MECHANISM: Final = "DIGEST-MD5"
_FILE: Final = files("groupshift").joinpath("adapters", "zookeeper", "login_keys.json")
KEYS: Final[Mapping[str, str]] = MappingProxyType(json.loads(_FILE.read_text("utf-8")))
"""Every key of a login (after ``zookeeper.`` at a consumer, in ``[zookeeper.properties]`` of the tool), and
what to know about it. JSON as `groupshift.consumers.config`: no parser is loaded for it."""

WORLD: Final = tuple(OPEN_ACL_UNSAFE)
"""Everybody may do everything: registrations, and their parents, even on a secured ensemble (§1.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZookeeperLogin:
    """An empty ``username`` is a session without a login; with ``digest`` by that scheme, not by SASL.
    Paths are those of PEM files, empty where not used."""

    username: str = ""
    password: str = field(default="", repr=False)
    digest: bool = False
    tls: bool = False
    ca: str = ""
    certificate: str = ""
    key: str = ""
    key_password: str = field(default="", repr=False)
    verify: bool = True

    @property
    def acl(self) -> tuple[ACL, ...]:
        """Of the nodes that only this identity may change and all may read; the world's without a login.

        By name, not as "the creator": to ZooKeeper that is the client's certificate as well."""
        if not self.username:
            return WORLD
        if self.digest:
            return (make_digest_acl(self.username, self.password, all=True), *READ_ACL_UNSAFE)
        return (make_acl("sasl", self.username, all=True), *READ_ACL_UNSAFE)

    @property
    def who(self) -> str:
        """For sentences to people."""
        return f"user {self.username!r}" if self.username else "a session without credentials"


ANYBODY: Final = ZookeeperLogin()
_NO_FIELDS: Final = frozenset({"sasl.mechanism", "ssl.verify"})
"""Keys whose text is no field of a `ZookeeperLogin`; the others name theirs (``ssl.key.password``)."""


class NoCredentials(logging.Filter):
    """Drops the one record in which kazoo prints the credential it sends (at DEBUG)."""

    def filter(self, record: logging.LogRecord) -> bool:
        """False for that record."""
        args = record.args if isinstance(record.args, tuple) else ()
        return not any(isinstance(argument, Auth) for argument in args)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """A socket whose TLS layer holds a decrypted answer is ready, whatever the operating system says: an
    answer that came in one record with another would else wait for the next ping."""

    def select(self, rlist: Sequence[Any], *rest: Any) -> tuple[Sequence[Any], ...]:
        """As ``select.select``."""
        ready = [each for each in rlist if isinstance(each, ssl.SSLSocket) and each.pending()]
        if ready:
            return ready, (), ()
        selected: tuple[Sequence[Any], ...] = super().select(rlist, *rest)
        return selected


def make_client(hosts: str, session_s: float, login: ZookeeperLogin = ANYBODY, **more: Any) -> KazooClient:
    """A client that is not started yet; ``more`` are kazoo's own arguments. What it creates without saying
    otherwise gets the login's ACL."""
    sasl = {"mechanism": MECHANISM, "username": login.username, "password": login.password}
    secured = {
        "use_ssl": True,
        "ca": login.ca or None,
        "certfile": login.certificate or None,
        "keyfile": login.key or None,
        "keyfile_password": login.key_password,
        "verify_certs": login.verify,
        "check_hostname": login.verify,
        "handler": _Handler(),
    }
    return KazooClient(
        hosts=hosts,
        timeout=session_s,
        sasl_options=sasl if login.username and not login.digest else None,
        auth_data=[("digest", f"{login.username}:{login.password}")] if login.digest else None,
        default_acl=login.acl if login.username else None,
        **(secured if login.tls else {}),
        **more,
    )


def send_question(question: TransactionRequest) -> Any:
    """Send what changes nothing, however it ends (see `ZookeeperRights` in ``mode_brake_and_rights.py``);
    `refused` reads the answer that the result holds."""
    question.check(f"/{unique()}", -1)
    return question.commit_async()


def refused(answer: list[Any]) -> bool:
    """True when the identity may not do that."""
    return any(isinstance(each, NoAuthError) for each in answer)


def unique() -> str:
    """A name that no node has."""
    return f"groupshift-{uuid.uuid4().hex}"


def read_login(properties: Mapping[str, Any], prefix: str, problems: list[str]) -> ZookeeperLogin:
    """The login that ``properties`` describe under keys that begin with ``prefix``; other keys are not looked
    at. A sentence for each that is wrong is added to ``problems``; none quotes a secret."""
    values = {key: str(properties[prefix + key]) for key in KEYS if properties.get(prefix + key) is not None}
    _check_sasl(values, prefix, problems)
    verify = values.get("ssl.verify", "true").lower()
    if verify not in {"true", "false"}:
        problems.append(f"{prefix}ssl.verify {verify!r} is neither true nor false: write one of them")
    texts: dict[str, Any] = {
        key.partition(".")[2].replace(".", "_"): values[key] for key in values.keys() - _NO_FIELDS
    }
    login = ZookeeperLogin(
        tls=any(key.startswith("ssl.") for key in values), verify=verify != "false", **texts
    )
    _check_tls(login, prefix, problems)
    return login


def read_tool_login(user: tuple[str, str], properties: Mapping[str, str]) -> ZookeeperLogin:
    """The tool's login: ``user`` is name and password for the scheme digest (empty: none), ``properties``
    have the keys above. Raises `Rejected` with everything that is wrong."""
    problems: list[str] = []
    login = read_login(properties, "", problems)
    if unknown := sorted(set(properties) - set(KEYS)):
        problems.append(f"{unknown[0]!r} is unknown; known are {', '.join(KEYS)}")
    name, password = user
    if name and login.username:
        problems.append("sasl.username and [zookeeper] username are two logins: remove one")
    if problems:
        raise Rejected(f"[zookeeper.properties] cannot be used: {'; '.join(problems)}")
    return replace(login, username=name, password=password, digest=True) if name else login


def _check_sasl(texts: Mapping[str, str], prefix: str, problems: list[str]) -> None:
    sasl_keys = [key for key in texts if key.startswith("sasl.")]
    if not sasl_keys:
        return
    mechanism = texts.get("sasl.mechanism", "")
    if mechanism != MECHANISM:
        problems.append(f"{prefix}sasl.mechanism is {mechanism!r}: set it to {MECHANISM}, the one there is")
    problems.extend(
        f"{prefix}{key} is missing: {prefix}sasl.mechanism needs it, set it"
        for key in ("sasl.username", "sasl.password")
        if not texts.get(key)
    )
    if importlib.util.find_spec("puresasl") is None:
        problems.append(
            f"{prefix}sasl.mechanism needs a library that is not installed (pure-sasl): "
            "pip install 'kafka-groupshift[sasl]'"
        )


def _check_tls(login: ZookeeperLogin, prefix: str, problems: list[str]) -> None:
    """Load what the keys name, as the client will."""
    if bool(login.certificate) != bool(login.key):
        problems.append(f"{prefix}ssl.certificate and {prefix}ssl.key belong together: set both or none")
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if login.ca:
            context.load_verify_locations(cafile=login.ca)
    except OSError as wrong:
        problems.append(f"{prefix}ssl.ca {login.ca!r} cannot be loaded ({_said(wrong)}): name a PEM file")
    try:
        if login.certificate:
            context.load_cert_chain(login.certificate, login.key, login.key_password)
    except OSError as wrong:
        problems.append(
            f"{prefix}ssl.certificate and {prefix}ssl.key cannot be loaded ({_said(wrong)}): "
            f"both must be PEM files, and {prefix}ssl.key.password that of the key"
        )


def _said(wrong: OSError) -> str:
    return wrong.strerror or type(wrong).__name__
