"""The use cases of a whole ensemble, over the real adapters."""

from __future__ import annotations

from contextlib import ExitStack

from groupshift.bootstrap.connect import zookeeper_connection
from groupshift.bootstrap.moves import Place, journal, opened, tools_of
from groupshift.domain.modes import Mode
from groupshift.moves.coordination.move import ModeAlone
from groupshift.scan.scan import FleetScans
from groupshift.scan.toggles import Toggles
from groupshift.settings import Settings


def build_scans(settings: Settings) -> FleetScans:
    """Return the use cases; close them, or use them in a ``with`` statement. Connections open at first use.

    Raises `Rejected` for an address, a folder or a URL that cannot be used."""
    from groupshift.adapters.groups import LiveEnsembleReader
    from groupshift.adapters.kafka.cluster import observer
    from groupshift.adapters.kafka.groups import KafkaEnsemble
    from groupshift.adapters.sqlalchemy.scans import SqlScans
    from groupshift.adapters.system import SystemClock
    from groupshift.adapters.zookeeper.ensemble import ZookeeperGroups
    from groupshift.adapters.zookeeper.mode import ZookeeperBrake

    clock, moves = SystemClock(), {each: ModeAlone(each) for each in Mode}
    with ExitStack() as stack:
        runs = stack.enter_context(journal(settings))
        ports = stack.enter_context(opened(moves[Mode.KAFKA], Place(settings=settings), None))
        zookeeper = zookeeper_connection(settings.zookeeper)
        kafka = observer(settings.kafka.bootstrap_servers, properties=settings.kafka.properties)
        reader = LiveEnsembleReader(ZookeeperGroups(zookeeper), KafkaEnsemble(kafka), clock)
        stack.callback(reader.close)
        scans = SqlScans(settings.journal.url)
        stack.callback(scans.close)
        toggles = Toggles(moves=moves, tools=tools_of(runs, settings), ports=ports)
        close = stack.pop_all().close
    brake = ZookeeperBrake(zookeeper)
    return FleetScans(clock=clock, reader=reader, scans=scans, brake=brake, toggles=toggles, closing=(close,))
