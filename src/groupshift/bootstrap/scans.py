"""The use cases of a whole ensemble, over the real adapters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from groupshift.bootstrap.connect import zookeeper_connection
from groupshift.bootstrap.moves import Place, journal, opened, tools_of
from groupshift.domain.modes import Mode
from groupshift.moves.coordination.move import ModeAlone
from groupshift.scan.scan import FleetScans
from groupshift.scan.toggles import Toggles
from groupshift.settings import Settings


@contextmanager
def build_scans(settings: Settings) -> Iterator[FleetScans]:
    """Open the use cases of an ensemble, and close at the end what they opened. Connections open at first
    use.

    Raises:
        Rejected: an address, a folder or a URL cannot be used.
        Transient: see `FleetScans`.
    """
    from groupshift.adapters.groups import LiveEnsembleReader
    from groupshift.adapters.kafka.cluster import observer
    from groupshift.adapters.kafka.groups import KafkaEnsemble
    from groupshift.adapters.sqlalchemy.scans import SqlScans
    from groupshift.adapters.system import SystemClock
    from groupshift.adapters.zookeeper.ensemble import ZookeeperGroups
    from groupshift.adapters.zookeeper.mode_and_brake import ZookeeperBrake

    clock, moves = SystemClock(), {each: ModeAlone(each) for each in Mode}
    zookeeper = zookeeper_connection(settings.zookeeper)
    kafka = observer(settings.kafka.bootstrap_servers, properties=settings.kafka.properties)
    with (
        journal(settings) as runs,
        opened(moves[Mode.KAFKA], Place(settings=settings), None) as ports,
        closing(LiveEnsembleReader(ZookeeperGroups(zookeeper), KafkaEnsemble(kafka), clock)) as reader,
        closing(SqlScans(settings.journal.url)) as scans,
    ):
        toggles = Toggles(moves=moves, tools=tools_of(runs, settings), ports=ports)
        brake = ZookeeperBrake(zookeeper)
        yield FleetScans(clock=clock, reader=reader, scans=scans, brake=brake, toggles=toggles)
