"""Settings: frozen, by concern, parsed once, all problems reported together; opens no connection.

The command line reads a TOML file (`load`), Airflow builds the same mapping from its connections
(`parse`). Keys and defaults are the fields below; an unknown key is a problem, not a surprise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_type_hints

from groupshift.domain.addresses import (
    api_server_problem,
    chroot_problem,
    joined,
    kafka_servers,
    login_problem,
    zookeeper_ensemble,
)
from groupshift.domain.modes import Isolation
from groupshift.errors import Rejected
from groupshift.foreign_files import toml

DRIVERS = ("process", "manual", "command", "kubernetes")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """``bootstrap_servers`` is ``host:port[,host:port...]``; ``properties`` are librdkafka keys for security;
    they may hold secrets. Raises `Rejected` for servers that cannot be an address."""

    bootstrap_servers: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.bootstrap_servers.strip():
            protocol = self.properties.get("security.protocol", "")
            servers = kafka_servers(self.bootstrap_servers, "kafka.bootstrap_servers", protocol)
            object.__setattr__(self, "bootstrap_servers", joined(servers))


@dataclass(frozen=True, slots=True, kw_only=True)
class ZookeeperSettings:
    """``hosts`` is ``host:port[,host:port...]`` without a path; ``chroot`` starts with ``/`` or is empty.
    ``username`` logs in by the scheme digest; ``properties`` are keys for SASL and TLS
    (docs/safety/logins.md) and may hold secrets. Moves that have nothing to do with ZooKeeper need none of
    it. Raises `Rejected` for hosts that cannot be an address."""

    hosts: str = ""
    chroot: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.hosts.strip():
            ensemble = zookeeper_ensemble(self.hosts, "zookeeper.hosts", chroot=False)
            object.__setattr__(self, "hosts", ensemble.hosts)
        if wrong := chroot_problem(self.chroot):
            raise Rejected(f"zookeeper.chroot cannot be used: {wrong}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSettings:
    """Driver ``command``: argument lists of three programs (see docs/reference/fleet-drivers.md), the seconds
    one may take, and the names of environment variables that they get besides PATH, HOME and the locale; the
    values of these are taken for secrets."""

    start: tuple[str, ...] = ()
    observe: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    timeout_s: int = 60
    environment: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """Driver ``kubernetes``: where the API server is. Either ``server`` (a URL) with ``token`` and ``ca``
    (path of a PEM file), or ``kubeconfig`` (path) with ``context``, or none of both inside a cluster."""

    namespace: str = "default"
    server: str = ""
    token: str = field(default="", repr=False)
    ca: str = ""
    kubeconfig: str = ""
    context: str = ""
    timeout_s: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSettings:
    """``driver`` is the one taken where a request names none; ``socket`` is the supervisor's Unix socket
    (driver ``process``); ``isolation_level`` is the one at which Kafka members read (old members read
    uncommitted)."""

    driver: str = "process"
    socket: str = ""
    isolation_level: str = "read_committed"
    command: CommandSettings = field(default_factory=CommandSettings)
    kubernetes: KubernetesSettings = field(default_factory=KubernetesSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    """``url`` is an SQLAlchemy URL; it may hold a password."""

    url: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceSettings:
    """``root`` is the evidence folder, or a URI that may hold a key; ``ledgers`` a folder of ``*.jsonl``
    ledgers, or empty. Packs are signed with ``signing_key`` (a private Ed25519 key) and checked with
    ``public_key``; either is PEM text, or the path of a file that holds it."""

    root: str = field(repr=False)
    ledgers: str = ""
    signing_key: str = field(default="", repr=False)
    public_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """``submit`` is the path of spark-submit, empty for the one beside this interpreter, else on the
    PATH; ``java_home`` empty means Java on the PATH; ``timeout_s`` bounds one job. On a cluster ``python`` is
    the workers' interpreter, empty for the path of this one, and ``properties`` are Spark's own keys
    (``spark.executor.memory``); they may hold secrets (docs/reference/spark.md)."""

    master: str = "local[*]"
    submit: str = ""
    java_home: str = ""
    timeout_s: int = 600
    python: str = ""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Numbers that decide. ``patience_s``: how long a judge looks again before it calls a live rule
    failed (a restarting member is back within it); ``settle_s``: how long the command line waits for
    a phase to settle; ``commit_interval_ms``: auto commit interval of the members;
    ``commit_slack_records``: added to what one commit interval produces; ``gate_expiry_s``: age at
    which what a gate showed is no longer an approval.

    A canary is looked at every ``canary_every_s`` while it is watched, and judged by at least
    ``canary_looks`` looks during which ``canary_records`` records arrived for either side. Its lag may
    grow by ``canary_lag_growth_pct`` percent points of what arrives more than the old members', it has
    to commit ``canary_commit_rate_pct`` percent of what they do, and may have ``canary_errors`` errors
    more than they (by member); ``canary_rebalances`` bounds the rebalances during the watch."""

    patience_s: int = 20
    settle_s: int = 120
    commit_interval_ms: int = 5000
    commit_slack_records: int = 100
    gate_expiry_s: int = 86400
    canary_every_s: int = 2
    canary_looks: int = 5
    canary_records: int = 20
    canary_lag_growth_pct: int = 20
    canary_commit_rate_pct: int = 70
    canary_errors: int = 0
    canary_rebalances: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalSettings:
    """Who may say yes at a gate, on the command line and in Airflow. ``approvers`` are names of accounts or
    of Airflow's users, empty for anybody; with ``four_eyes`` it is never the one who asked for the move."""

    approvers: tuple[str, ...] = ()
    four_eyes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of one environment."""

    kafka: KafkaSettings
    zookeeper: ZookeeperSettings = field(default_factory=ZookeeperSettings)
    journal: JournalSettings
    evidence: EvidenceSettings
    fleet: FleetSettings = field(default_factory=FleetSettings)
    spark: SparkSettings = field(default_factory=SparkSettings)
    thresholds: Thresholds = field(default_factory=Thresholds)
    approval: ApprovalSettings = field(default_factory=ApprovalSettings)


_SECTIONS: Mapping[str, type] = get_type_hints(Settings)
_TYPES: Mapping[Any, tuple[type, str]] = {
    str: (str, "a text"),
    int: (int, "a whole number"),
    bool: (bool, "true or false"),
    Mapping[str, str]: (Mapping, "a table of texts"),
    tuple[str, ...]: (list, "a list of texts"),
}


def load(path: str | Path) -> Settings:
    """Settings from a TOML file. Raises `Rejected` naming the file and everything wrong in it."""
    try:
        data = toml(path)
    except OSError as error:
        raise Rejected(
            f"settings file {path} cannot be read ({error.strerror}); "
            "name one with --settings or GROUPSHIFT_SETTINGS, or run: groupshift sandbox up"
        ) from error
    except ValueError as error:
        raise Rejected(f"settings file {path} is not valid TOML: {error}; correct it") from error
    return parse(data, source=f"settings file {path}")


def parse(data: Mapping[str, Any], source: str = "settings") -> Settings:
    """Return settings from sections of plain values.

    Raises:
        Rejected: they cannot be used; one sentence names every problem.
    """
    problems = [f"unknown section [{name}]" for name in data if name not in _SECTIONS]
    sections = {name: _section(name, kind, data.get(name, {}), problems) for name, kind in _SECTIONS.items()}
    if not problems:
        problems = [sentence for sentence in _checks(Settings(**sections)) if sentence]
    if problems:
        raise Rejected(f"{source} cannot be used: {'; '.join(problems)}; correct these and run again")
    return Settings(**sections)


def _section(name: str, kind: Any, values: object, problems: list[str]) -> Any:
    """Return one section, by the fields of its dataclass; None after adding its problems."""
    if not isinstance(values, Mapping):
        problems.append(f"[{name}] is not a table")
        return None
    known = get_type_hints(kind)
    faults = [f"unknown key {name}.{key}" for key in values if key not in known]
    taken: dict[str, Any] = {}
    for entry in fields(kind):
        if entry.name in values:
            key, value = f"{name}.{entry.name}", values[entry.name]
            taken[entry.name] = _value(key, known[entry.name], value, faults)
        elif entry.default is MISSING and entry.default_factory is MISSING:
            faults.append(f"{name}.{entry.name} is missing")
    if not faults:
        try:
            return kind(**taken)
        except Rejected as wrong:
            faults.append(str(wrong))
    problems.extend(faults)
    return None


def _value(key: str, kind: Any, value: object, problems: list[str]) -> Any:
    """Return one value as its field wants it, after adding what is wrong with it."""
    if is_dataclass(kind):
        return _section(key, kind, value, problems)
    wanted, words = _TYPES[kind]
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    texts = all(isinstance(each, str) for each in inside)
    if not (isinstance(value, wanted) and isinstance(value, bool) is (wanted is bool) and texts):
        problems.append(f"{key} is not {words}")
    return tuple(value) if isinstance(value, list) else value


def _checks(settings: Settings) -> Iterator[str | Literal[False] | None]:
    """Yield what the types cannot say: a sentence, or nothing where all is well. Values that may hold secrets
    are not repeated; what only another driver needs may be missing."""
    zookeeper, fleet, where = settings.zookeeper, settings.fleet, settings.fleet.kubernetes
    yield not settings.kafka.bootstrap_servers.strip() and "kafka.bootstrap_servers is empty"
    yield not settings.journal.url.strip() and "journal.url is empty"
    yield not settings.evidence.root.strip() and "evidence.root is empty"
    yield zookeeper != ZookeeperSettings() and not zookeeper.hosts.strip() and "zookeeper.hosts is empty"
    yield login_problem(settings.kafka.properties, "kafka.properties ")
    yield fleet.driver not in DRIVERS and f"fleet.driver {fleet.driver!r} is none of {', '.join(DRIVERS)}"
    level, levels = fleet.isolation_level, [each.value for each in Isolation]
    yield level not in levels and f"fleet.isolation_level {level!r} is none of {', '.join(levels)}"
    if fleet.driver == "process":
        yield not fleet.socket and "fleet.socket is missing, which the driver process needs"
    if fleet.driver == "command":
        for name in ("start", "observe", "undo"):
            missing = not getattr(fleet.command, name)
            yield missing and f"fleet.command.{name} is missing, which the driver command needs"
    if where.server:
        yield bool(where.kubeconfig) and "fleet.kubernetes names a server and a kubeconfig: keep one of both"
        yield api_server_problem(where.server, "fleet.kubernetes.server")
    for name, value in (("command", fleet.command.timeout_s), ("kubernetes", where.timeout_s)):
        yield value < 1 and f"fleet.{name}.timeout_s {value} is less than 1"
    for name, value in asdict(settings.thresholds).items():
        yield value < 0 and f"thresholds.{name} {value} is negative"
