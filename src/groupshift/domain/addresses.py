"""Addresses as people write them: one parser for Kafka's, one for ZooKeeper's, one for an HTTP API's.

Settings, options of the command line, configurations of consumers and connections of Airflow all come here
before anything is asked. What Java's clients understand is understood alike, with three exceptions: an
address that cannot be one is refused at once, a prefix has to agree with ``security.protocol`` (Java ignores
it, and the connection would be PLAINTEXT), and a user name inside an address is refused without being shown.

Source: `ClientUtils.parseAndValidateAddresses` and `Utils.getHost` of Kafka 4.1, `ConnectStringParser` of
ZooKeeper 3.8.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from groupshift.domain.foreign_json import shown
from groupshift.domain.foreign_text_quoting import holds_login
from groupshift.errors import Rejected

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Kafka's security protocols."""
_HIGHEST_PORT: Final = 65_535
_LONGEST_HOST, _MOST_SHOWN = 253, 200
_LABEL = re.compile(r"(?!.{64})[0-9A-Za-z_](?:[0-9A-Za-z_-]*[0-9A-Za-z_])?", re.ASCII)
_PREFIX = re.compile(r"(?:([0-9a-zA-Z\-%._]*)://)?(.*)", re.DOTALL)
_PORT = re.compile(r"0*([1-9][0-9]{0,4})", re.ASCII)
_URL = re.compile(r"[0-9A-Za-z._:/\[\]%~-]+", re.ASCII)
_SPACE: Final = " \t\r\n\f\v"
_MECHANISM: Final = ("sasl.mechanism", "sasl.mechanisms")
_TLS: Final = ("ssl.ca.", "ssl.certificate.", "ssl.crl.", "ssl.key.", "ssl.keystore.", "ssl.truststore.")
_ZONE = re.compile(r"[0-9A-Za-z._~-]+", re.ASCII)
_KAFKA_FORM: Final = "write host:port, several with a comma between them"
_ZOOKEEPER_FORM: Final = "write host:port[,host:port][/chroot]"


@dataclass(frozen=True, slots=True, order=True)
class Server:
    """One server; ``host`` without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Ensemble:
    """ZooKeeper's servers and the path below which a cluster keeps its nodes, empty for the root."""

    servers: tuple[Server, ...]
    chroot: str = ""

    @property
    def hosts(self) -> str:
        """``host:port[,host:port]``."""
        return joined(self.servers)

    def __str__(self) -> str:
        return self.hosts + self.chroot


def joined(servers: tuple[Server, ...]) -> str:
    """``host:port[,host:port]``, as every client understands it."""
    return ",".join(map(str, servers))


def kafka_servers(text: str, key: str, protocol: str = "") -> tuple[Server, ...]:
    """The bootstrap servers that ``text`` names; ``key`` is where it was written, ``protocol`` the
    ``security.protocol`` beside it (empty: PLAINTEXT, Kafka's default).

    Raises `Rejected` for what cannot be an address and for a prefix that contradicts ``protocol``."""
    used, addresses = (protocol or "PLAINTEXT").strip().upper(), []
    with _written(text, key, _KAFKA_FORM):
        for entry in _entries(text):
            prefix, address = _PREFIX.fullmatch(entry).groups()  # type: ignore[union-attr]
            addresses.append(address)
            said = used if prefix is None else prefix.upper()
            if prefix is not None and said not in PROTOCOLS:
                raise ValueError(f"{prefix}:// is no security protocol of Kafka")
            if said != used:
                beside = used if protocol else "PLAINTEXT (not set)"
                raise Rejected(
                    f"{key} {shown(text, _MOST_SHOWN)} cannot be used (its prefix says {said}, "
                    f"security.protocol is {beside}): set security.protocol to {said} in [kafka.properties] "
                    "or the consumer's configuration, with its login, or remove the prefix"
                )
        return _servers(addresses)


def zookeeper_ensemble(text: str, key: str, *, chroot: bool = True) -> Ensemble:
    """The servers and the chroot that ``text`` names; a server without a port has ZooKeeper's, 2181.

    Raises `Rejected` for what cannot be an address, and without ``chroot`` for a text that holds a path."""
    with _written(text, key, _ZOOKEEPER_FORM):
        hosts, slash, path = text.strip(_SPACE).partition("/")
        if slash and not chroot:
            raise Rejected(f"{key} {shown(text, _MOST_SHOWN)} holds a path: put it into zookeeper.chroot")
        servers = _servers(_entries(hosts), "2181")
        if wrong := chroot_problem(slash + path):
            raise ValueError(wrong)
        return Ensemble(servers, slash + path if path else "")


def one_server(text: str, key: str) -> Server:
    """The one server that ``text`` names. Raises `Rejected` for anything else."""
    with _written(text, key, f"write {key} host:port, once for each"):
        return _server(text.strip(_SPACE), "")


@contextmanager
def _written(text: str, key: str, form: str) -> Iterator[None]:
    """Refuse a text with a login, and for each `ValueError` of the block say what cannot be used, why, and in
    what ``form`` it is written."""
    if holds_login(text):
        raise Rejected(
            f"{key} holds a user name or a password before an @ (not shown): {form}, "
            "and the login into its own keys"
        )
    try:
        yield
    except ValueError as why:
        raise Rejected(f"{key} {shown(text, _MOST_SHOWN)} cannot be used ({why}): {form}") from None


def chroot_problem(chroot: str) -> str | None:
    """What is wrong with a chroot, None when it can be one; ``/`` alone is the root, as is an empty one.
    The rules are those of ZooKeeper's ``PathUtils``."""
    if chroot in {"", "/"}:
        return None
    if holds_login(chroot):
        return "the chroot holds an @ (not shown)"
    root, *names = chroot.split("/")
    plain = chroot.isprintable() and chroot == chroot.strip() and "," not in chroot
    if plain and not root and all(names) and not {".", ".."} & set(names):
        return None
    return (
        f"the chroot {shown(chroot, _MOST_SHOWN)} is no path: one begins with /, does not end with /, "
        "stands once after the last server, and has no comma, no space and no empty name, . or .. in it"
    )


def api_server_problem(server: str, key: str) -> str | None:
    """What is wrong with the URL of an HTTP API to which a token is sent, None when it can be used: it is
    ``https://``, or ``http://`` of this machine and no other."""
    if holds_login(server):
        return f"{key} holds a user name or a password (not shown): remove it, and write the token beside it"
    try:
        url = urlsplit(server)
        host, port = url.hostname or "", url.port
    except ValueError:
        host, port = "", 0
    written = f"[{host}]" if ":" in host else host
    fits = _URL.fullmatch(server) and _is_host(host) and port != 0
    if not fits or url.netloc.lower() not in {written, f"{written}:{port}"}:
        return f"{key} {shown(server, _MOST_SHOWN)} is not an https:// URL: write https://host:port"
    address = _ip(host)
    here = host == "localhost" or (address is not None and address.is_loopback)  # whatever a resolver says
    if url.scheme == "https" or (url.scheme == "http" and here):
        return None
    return f"{key} {shown(server, _MOST_SHOWN)} is not an https:// URL: the token would be sent in the clear"


def login_problem(properties: Mapping[str, object], prefix: str = "") -> str | None:
    """What is wrong with security keys that would have no effect, None when they have one: a login without a
    SASL protocol, certificates without TLS. Such a connection would silently be PLAINTEXT. So is a mechanism
    under each of its two names: which one counts would depend on their order.

    ``prefix`` stands before each key in the sentence; no value of a login is in it."""
    protocol = str(properties.get("security.protocol") or "PLAINTEXT").strip().upper()
    protocol_now = protocol if properties.get("security.protocol") else "not set, which means PLAINTEXT"
    named = f"{prefix}security.protocol is {protocol_now}"
    sasl, tls = protocol.startswith("SASL"), protocol.endswith("SSL")
    for begins, has_effect, other in (
        (("sasl.",), sasl, "SASL_SSL" if tls else "SASL_SSL or SASL_PLAINTEXT"),
        (_TLS, tls, "SASL_SSL" if sasl else "SSL or SASL_SSL"),
    ):
        idle = next((key for key, value in properties.items() if value and key.startswith(begins)), None)
        if idle and not has_effect:
            return f"{prefix}{idle} has no effect ({named}): set {prefix}security.protocol to {other}"
    one, two = (str(properties.get(key) or "") for key in _MECHANISM)
    if one and two and one != two:
        names = [f"{prefix}{key}" for key in _MECHANISM]
        return f"{names[0]} is {one!r} and {names[1]}, its other name, {two!r}: remove one of them"
    return None


def _entries(text: str) -> list[str]:
    """What stands between the commas; a comma too many is read over, as Java does."""
    return [entry for entry in (each.strip(_SPACE) for each in text.split(",")) if entry]


def _servers(entries: Iterable[str], port: str = "") -> tuple[Server, ...]:
    servers = tuple(_server(entry, port) for entry in entries)
    if not servers:
        raise ValueError("it names no server")
    return servers


def _server(entry: str, default_port: str) -> Server:
    """The server of ``host``, ``host:port`` or ``[address]:port``. Raises `ValueError` where it is none."""
    host, colon, port = entry.rpartition(":")
    if not colon or entry.endswith("]"):
        host, port = entry, default_port
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    fits = _is_host(bare) if bare == host else _is_ipv6(bare)
    number = _PORT.fullmatch(port)
    if not fits or number is None or int(number[1]) > _HIGHEST_PORT:
        raise ValueError(f"{shown(entry, _MOST_SHOWN)} is no host:port")
    return Server(bare, int(number[1]))


def _is_host(host: str) -> bool:
    """Whether this can be a name or an IP address."""
    if ":" in host:
        return _is_ipv6(host)
    labels = host.removesuffix(".").split(".")
    if not host.isascii() or len(host) > _LONGEST_HOST:
        return False
    if labels[-1].isdigit():
        return isinstance(_ip(host), ipaddress.IPv4Address)
    return all(_LABEL.fullmatch(label) for label in labels)


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_ipv6(host: str) -> bool:
    address = _ip(host)
    if not isinstance(address, ipaddress.IPv6Address) or not host.isascii():
        return False
    return address.scope_id is None or bool(_ZONE.fullmatch(address.scope_id))
