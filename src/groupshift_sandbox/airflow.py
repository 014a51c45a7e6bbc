"""Airflow for the sandbox: three processes on SQLite, on 127.0.0.1, with two users.

``api-server``, ``scheduler --skip-serve-logs`` and ``dag-processor`` after ``db migrate``: no
triggerer (nothing here defers) and no log servers (they bind all interfaces). Everything is told
through environment variables, so no ``airflow.cfg`` is edited.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from groupshift.errors import Rejected, Transient
from groupshift_sandbox.airflow_api import AirflowApi
from groupshift_sandbox.state import write_document

USERS: Mapping[str, str] = {"admin": "admin", "viewer": "viewer"}
"""User name (also the password) to role of the simple auth manager."""

PROCESSES: Mapping[str, tuple[str, ...]] = {
    "airflow-api-server": ("api-server",),
    "airflow-scheduler": ("scheduler", "--skip-serve-logs"),
    "airflow-dag-processor": ("dag-processor",),
}
"""Process name to the arguments of the ``airflow`` command, in the order in which they are to be started:
what the others start asks the API server, and is lost when it gets no answer in time."""

_LOCAL_SETTINGS = '''\
"""Read by each process of this Airflow: the scheduler has what its tasks use before it forks them."""

import sys
from contextlib import suppress

if "scheduler" in sys.argv:
    with suppress(ImportError):
        import groupshift.bootstrap.connect
        import groupshift.bootstrap.moves
        import groupshift.engine.begin
        import groupshift.engine.gates
        import groupshift.engine.roll_back
        import groupshift.engine.run
        import pyarrow.parquet
'''

PROJECT_VARIABLE = "GROUPSHIFT_PROJECT"
_MIGRATE_S = 400.0
_LOCKED_S = 60
"""For how long SQLite waits while another of the three processes writes, and a task for the API server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowSpec:
    """One Airflow: where it lives and what it is connected to.

    ``home`` is its own folder, ``project`` the folder that holds ``dags/`` and ``plugins/``,
    ``settings`` the groupshift settings file of journal, evidence and fleet, ``connections`` Airflow
    connections by id as their JSON form, ``extra`` further environment variables (they win).
    ``heartbeat_timeout_s`` is when a task whose process died silently is taken as lost.
    """

    home: Path
    project: Path
    port: int
    settings: Path
    connections: Mapping[str, Mapping[str, object]]
    heartbeat_timeout_s: int = 20
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Base address of UI and API."""
        return f"http://127.0.0.1:{self.port}"


def find_project(start: Path | None = None) -> Path:
    """The folder with ``dags/`` and ``plugins/``: GROUPSHIFT_PROJECT, else upwards from ``start``.

    ``start`` defaults to the working directory. Raises `Rejected` when there is none.
    """
    named = os.environ.get(PROJECT_VARIABLE)
    first = Path(named) if named else (start or Path.cwd())
    for folder in (first,) if named else (first, *first.parents):
        if (folder / "plugins" / "groupshift_plugin.py").is_file() and (folder / "dags").is_dir():
            return folder.resolve()
    raise Rejected(
        f"{first} holds no dags/ and plugins/ of groupshift; run in the project's folder or set"
        f" {PROJECT_VARIABLE} to it."
    )


ZOOKEEPER = "groupshift_zookeeper_default"
"""The connection of the ensemble; the form of `roll_back` names none by itself."""


def connections(
    bootstrap_servers: str, zookeeper_hosts: str, chroot: str = "", spark_master: str = "local[*]"
) -> dict[str, dict[str, object]]:
    """The three connections the DAGs use by default."""
    return {
        "groupshift_kafka_default": {"conn_type": "groupshift_kafka", "host": bootstrap_servers},
        ZOOKEEPER: {
            "conn_type": "groupshift_zookeeper",
            "host": zookeeper_hosts,
            "schema": chroot,
        },
        "spark_default": {"conn_type": "spark", "host": spark_master},
    }


def command(name: str) -> list[str]:
    """The argv of one of `PROCESSES`: the ``airflow`` that belongs to this interpreter."""
    return [_airflow(), *PROCESSES[name]]


def environment(spec: AirflowSpec, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """All environment variables of every Airflow process of ``spec``, on top of ``base``.

    ``base`` defaults to this process's environment; inherited AIRFLOW variables are dropped.
    """
    inherited = os.environ if base is None else base
    kept = {key: value for key, value in inherited.items() if not key.startswith("AIRFLOW")}
    binaries = str(Path(sys.executable).parent)
    own = {
        "PATH": os.pathsep.join([binaries, kept.get("PATH", os.defpath)]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "GX_ANALYTICS_ENABLED": "false",
        "GROUPSHIFT_SETTINGS": str(spec.settings.absolute()),
        "AIRFLOW_HOME": str(spec.home.absolute()),
        **{f"AIRFLOW__{key}": value for key, value in _configuration(spec).items()},
        **{f"AIRFLOW_CONN_{name.upper()}": json.dumps(value) for name, value in spec.connections.items()},
    }
    return {**kept, **own, **spec.extra}


def _configuration(spec: AirflowSpec) -> dict[str, str]:
    """Airflow configuration as ``SECTION__KEY`` to value."""
    keys = _secrets(spec)
    return {
        "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{spec.home.absolute()}/airflow.db?timeout={_LOCKED_S}",
        "WORKERS__EXECUTION_API_TIMEOUT": str(_LOCKED_S),
        "CORE__DAGS_FOLDER": str(spec.project / "dags"),
        "CORE__PLUGINS_FOLDER": str(spec.project / "plugins"),
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__PARALLELISM": "2",
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in USERS.items()),
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str((spec.home / "passwords.json").absolute()),
        "API__HOST": "127.0.0.1",
        "API__PORT": str(spec.port),
        "API__BASE_URL": spec.url,
        "API__WORKERS": "1",
        "API__SECRET_KEY": keys["secret_key"],
        "API_AUTH__JWT_SECRET": keys["jwt_secret"],
        "DAG_PROCESSOR__REFRESH_INTERVAL": "5",
        "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "1200",  # a changed file is read at once
        "DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "300",  # 50 s are short on a busy machine
        "CORE__DAGBAG_IMPORT_TIMEOUT": "240",
        "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
        "SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": "5",
        "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": str(spec.heartbeat_timeout_s),
        "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
        "USAGE_DATA_COLLECTION__ENABLED": "False",
    }


def _secrets(spec: AirflowSpec) -> dict[str, str]:
    """Signing keys of this Airflow, made once and kept readable by the owner only."""
    path = spec.home / "keys.json"
    if not path.exists():
        spec.home.mkdir(parents=True, exist_ok=True)
        write_document(path, {"jwt_secret": secrets.token_hex(32), "secret_key": secrets.token_hex(32)})
    return dict(json.loads(path.read_text()))


def prepare(spec: AirflowSpec) -> None:
    """Write the users' passwords and create the database. Raises `Transient` when that fails."""
    folder = spec.home / "config"
    folder.mkdir(parents=True, exist_ok=True)
    own = folder / "airflow_local_settings.py"
    if not own.exists():
        own.write_text(_LOCAL_SETTINGS)
    write_document(spec.home / "passwords.json", {user: user for user in USERS})
    log = spec.home / "db-migrate.log"
    with log.open("w") as out:
        done = subprocess.run(
            [_airflow(), "db", "migrate"],
            env=environment(spec),
            stdout=out,
            stderr=subprocess.STDOUT,
            timeout=_MIGRATE_S,
            check=False,
        )
    if done.returncode != 0:
        raise Transient(f"airflow db migrate ended with {done.returncode}; read {log}.")


def wait_healthy(
    spec: AirflowSpec, deadline_s: float = 300.0, demand: Callable[[], None] = lambda: None
) -> AirflowApi:
    """Wait until a run of any DAG could start, or one of them cannot be imported; returns a client.

    ``demand`` raises when there is nothing to wait for. Raises `Transient` after ``deadline_s``."""
    api = AirflowApi(url=spec.url)
    end = time.monotonic() + deadline_s
    while not (api.healthy() and _parsed(spec, api)):
        demand()
        if time.monotonic() > end:
            raise Transient(
                f"Airflow at {spec.url} is not healthy or does not know every DAG of {spec.project} after "
                f"{deadline_s:.0f} s; read its logs."
            )
        time.sleep(0.5)
    return api


def _parsed(spec: AirflowSpec, api: AirflowApi) -> bool:
    """Whether the DAGs, each in the file of its name, were parsed: healthy is said before that."""
    names = sorted(path.stem for path in (spec.project / "dags").glob("*.py"))
    return all(api.knows(name) for name in names) or bool(api.import_errors())


def _airflow() -> str:
    path = Path(sys.executable).with_name("airflow")
    if not path.exists():
        raise Rejected(f"{path} does not exist; install kafka-groupshift with the extra 'airflow'.")
    return str(path)
