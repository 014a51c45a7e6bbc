"""Where runs that change a whole cluster work and remember in this deployment, and who works on its nodes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from groupshift_airflow.hooks import KafkaClusterHook, SigningHook, base_settings

if TYPE_CHECKING:
    from groupshift.bootstrap.moves import Place
    from groupshift.bootstrap.runs import RunPlace
    from groupshift.ports.driver import BrokerReplacement
    from groupshift.settings import Settings

NODES_VARIABLE = "GROUPSHIFT_NODES"
"""Environment variable that names the file of who replaces or restarts nodes
(docs/reference/node-drivers.md); without it a person does."""
TIMEOUT_S = 30.0


def place_and_driver(kafka_conn_id: str, folder: str) -> tuple[RunPlace, BrokerReplacement]:
    """Of this connection, with snapshots in ``folder`` of the evidence. Raises `Rejected` for a missing or
    wrong connection, and for evidence that is no local folder."""
    from groupshift.bootstrap.drivers import driver_of
    from groupshift.bootstrap.runs import RunPlace
    from groupshift.errors import Rejected
    from groupshift.settings import KafkaSettings

    base, file = base_settings(), os.environ.get(NODES_VARIABLE)
    evidence = {**SigningHook().section(), **base["evidence"]}
    root = str(evidence["root"])
    if "://" in root:
        raise Rejected("evidence.root is no local folder, which a run needs; name one in the settings")
    place = RunPlace(
        kafka=KafkaSettings(**KafkaClusterHook(kafka_conn_id).section()),
        journal=str(base["journal"]["url"]),
        evidence=Path(root) / folder,
        java_home=str(base.get("spark", {}).get("java_home", "")),
        signing_key=str(evidence.get("signing_key", "")),
    )
    return place, driver_of(Path(file) if file else None)


def run_place(settings: Settings) -> Place:
    """Return where runs of the engine work, of these settings."""
    from groupshift.bootstrap.moves import Place

    file = os.environ.get(NODES_VARIABLE)
    return Place(settings=settings, nodes=Path(file) if file else None, timeout_s=TIMEOUT_S)
