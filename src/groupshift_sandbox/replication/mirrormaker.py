"""Real MirrorMaker 2 in dedicated mode: one process, one direction, the flow as a `Link` describes it.

It has no REST server unless ``rest`` is on, and then one on 127.0.0.1. Its topics are those of
`Link.internal_topics`, and Connect's ``mm2-*.<source alias>.internal`` on the target.

Source: docs/reference/cross-cluster-offsets.md §§2-4; KIP-382, KIP-618, KIP-710.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from groupshift.errors import Rejected
from groupshift.links.link import Link, LinkKind, SyncLocation
from groupshift_sandbox.artifacts import MIRROR_MAKER, SIMPLE_LOGGING, class_path
from groupshift_sandbox.home import Home
from groupshift_sandbox.jvm import java_argv, write_properties
from groupshift_sandbox.processes import Command, Running, await_start, free_port, start

_MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
_RELEASE = MIRROR_MAKER[0].version
_READY_S = 120.0
_ANSWER_S = 10.0
_POLICIES = {LinkKind.MM2_DEFAULT: "Default", LinkKind.MM2_IDENTITY: "Identity"}
_REPLICATED = ("", "checkpoints.topic.", "heartbeats.topic.", "offset-syncs.topic.")
_STORED = ("config.storage.", "offset.storage.", "status.storage.")


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorMakerOptions:
    """One flow of MirrorMaker from the cluster at ``source`` to that at ``target`` (addresses of brokers).

    ``topics`` and ``groups`` are its filters, regular expressions joined by commas; the seconds are those
    between two checkpoints, two writes of groups, and two looks for new topics and groups (MirrorMaker's own
    are 60, 60 and 600). ``flush_s`` is how often Connect commits source offsets, with which delayed syncs
    leave (its own: 60). ``replicas`` of every topic that it makes; ``properties`` win over ours.
    """

    link: Link
    source: str
    target: str
    topics: str = ".*"
    groups: str = ".*"
    tasks: int = 1
    offset_lag_max: int = 100
    exactly_once: bool = False
    rest: bool = False
    sync_groups: bool = True
    checkpoints_s: int = 1
    groups_s: int = 1
    refresh_s: int = 2
    flush_s: float = 5.0
    replicas: int = 1
    heap: str = "320m"
    properties: Mapping[str, str] = field(default_factory=dict)


def mirrormaker_properties(options: MirrorMakerOptions, *, rest_port: int = 0) -> dict[str, str]:
    """What MirrorMaker is configured with. Raises `Rejected` for a link of another kind."""
    link = options.link
    if link.kind not in _POLICIES:
        raise Rejected(f"link {link.name}: kind {link.kind} is not MirrorMaker's; use {', '.join(_POLICIES)}")
    flow, target = f"{link.source_alias}->{link.target_alias}", link.target_alias
    policy = f"org.apache.kafka.connect.mirror.{_POLICIES[link.kind]}ReplicationPolicy"
    separator = {"replication.policy.separator": link.separator} if link.separator != "." else {}
    if separator and not link.separator_in_internal_topics:
        separator["replication.policy.internal.topic.separator.enabled"] = "false"
    properties = {
        "clusters": f"{link.source_alias}, {target}",
        f"{link.source_alias}.bootstrap.servers": options.source,
        f"{target}.bootstrap.servers": options.target,
        f"{flow}.enabled": "true",
        f"{target}->{link.source_alias}.enabled": "false",
        # without heartbeats there is no herder of the way back, which would make topics on the source
        "emit.heartbeats.enabled": "false",
        "replication.policy.class": policy,
        **separator,
        "offset-syncs.topic.location": link.sync_location.value,
        "tasks.max": str(options.tasks),
        f"{flow}.topics": options.topics,
        f"{flow}.groups": options.groups,
        "offset.lag.max": str(options.offset_lag_max),
        "emit.checkpoints.interval.seconds": str(options.checkpoints_s),
        "sync.group.offsets.enabled": str(options.sync_groups).lower(),
        "sync.group.offsets.interval.seconds": str(options.groups_s),
        "refresh.topics.interval.seconds": str(options.refresh_s),
        "refresh.groups.interval.seconds": str(options.refresh_s),
        "sync.topic.acls.enabled": "false",
        f"{target}.offset.flush.interval.ms": str(int(options.flush_s * 1000)),
        f"{link.source_alias}.consumer.isolation.level": link.isolation.value,
        **{f"{name}replication.factor": str(options.replicas) for name in (*_REPLICATED, *_STORED)},
        # after a kill the next one waits so long for the dead worker, and then not for others
        f"{target}.session.timeout.ms": "6000",
        f"{target}.heartbeat.interval.ms": "1000",
        f"{target}.scheduled.rebalance.max.delay.ms": "0",
    }
    if options.exactly_once:
        properties[f"{target}.exactly.once.source.support"] = "enabled"
    if rest_port:
        properties |= {
            "dedicated.mode.enable.internal.rest": "true",
            "listeners": f"http://127.0.0.1:{rest_port}",
        }
    return {**properties, **options.properties}


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorMaker:
    """A MirrorMaker that was started: it can be stopped or killed as a process, and started again."""

    options: MirrorMakerOptions
    process: Running


def start_mirrormaker(
    home: Home, options: MirrorMakerOptions, *, topics: Sequence[str] = (), name: str = "mirrormaker"
) -> MirrorMaker:
    """Start it, and wait until the target has its topics and the copies of these source ``topics``.

    Two at once on the same clusters need names and pairs of aliases of their own. Raises `Transient` when it
    ended or is not ready in time."""
    port = free_port() if options.rest else 0
    argv = java_argv(
        home,
        _MAIN,
        write_properties(home, name, mirrormaker_properties(options, rest_port=port)),
        "--clusters",
        options.link.target_alias,
        classes=class_path(SIMPLE_LOGGING, *MIRROR_MAKER),
        heap=options.heap,
        release=_RELEASE,
    )
    process = start(home, Command(name=name, argv=argv))
    await_start(home, process, partial(_is_ready, _Looks(options), topics), _READY_S)
    return MirrorMaker(options=options, process=process)


class _Looks:
    """Which topics of a flow are there now. It keeps its clients: making one takes a while."""

    def __init__(self, options: MirrorMakerOptions) -> None:
        self.link = options.link
        self.checkpoints = options.checkpoints_s > 0
        self._source, self._target = (
            AdminClient({"bootstrap.servers": address, "log_level": 0})
            for address in (options.source, options.target)
        )

    def source(self) -> Mapping[str, int]:
        """Topics of the source with the number of their partitions."""
        return _partitions(self._source)

    def target(self) -> Mapping[str, int]:
        """The same of the target."""
        return _partitions(self._target)


def _partitions(admin: AdminClient) -> Mapping[str, int]:
    topics = admin.list_topics(timeout=_ANSWER_S).topics
    return {name: len(each.partitions) for name, each in topics.items()}


def _is_ready(looks: _Looks, topics: Sequence[str]) -> bool:
    own = looks.link.internal_topics
    assert own is not None  # noqa: S101 - the properties were made of this link
    try:
        source, target = looks.source(), looks.target()
    except KafkaException:
        return False
    syncs = source if looks.link.sync_location is SyncLocation.SOURCE else target
    if own.offset_syncs not in syncs or (looks.checkpoints and own.checkpoints not in target):
        return False
    copies = {topic: looks.link.target_topic(topic).topic for topic in topics}
    return all(
        copy is not None and target.get(copy, 0) >= source.get(topic, 1) for topic, copy in copies.items()
    )
