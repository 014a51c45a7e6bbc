"""A real PostgreSQL for tests: Debian's server, in a temporary folder, on 127.0.0.1, without fsync.

``postgres`` refuses to run as root, so root starts it as the user that Debian's package made. Where there is
no server, root installs Debian's package; for others its absence is a failure, not a skip."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg

from groupshift.errors import Broken
from groupshift_sandbox.home import Home
from groupshift_sandbox.processes import (
    Command,
    Running,
    free_port,
    is_running,
    send,
    start,
    stop,
    wait_until,
)

USER = "groupshift"
_DEBIAN = Path("/usr/lib/postgresql")
_NO_CLUSTER = Path("/etc/postgresql-common/createcluster.d/groupshift.conf")
_SETTINGS = ("fsync=off", "unix_socket_directories=", "shared_buffers=16MB", "listen_addresses=127.0.0.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres:
    """A running server; ``password`` is that of its owner, the user `USER`."""

    port: int
    password: str
    process: Running

    def url(self, database: str, password: str | None = None) -> str:
        """What ``journal.url`` says for a database of this server."""
        return f"postgresql://{USER}:{password or self.password}@127.0.0.1:{self.port}/{database}"

    def admin(self, database: str = "postgres") -> psycopg.Connection:
        """A connection of the server's owner, each statement committed at once."""
        return psycopg.connect(self.url(database), autocommit=True)

    def new_database(self) -> str:
        """The name of an empty database."""
        name = f"journal_{secrets.token_hex(4)}"
        with self.admin() as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return name

    def end_connections(self, database: str) -> int:
        """End all connections to a database, as a server that restarts would; returns how many there were."""
        asked = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        with self.admin() as connection:
            return len(connection.execute(asked, [database]).fetchall())


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    """A server of the caller's own; ended by its process id, its folder removed."""
    binaries = _binaries()
    root = Path(tempfile.mkdtemp(prefix="groupshift-postgres-"))
    try:
        password = secrets.token_urlsafe(24)
        data = _initialised(root, binaries, password)
        port = free_port()
        given = [part for one in (*_SETTINGS, f"port={port}") for part in ("-c", one)]
        argv = [*_unprivileged(), str(binaries / "postgres"), "-D", str(data), *given]
        home = Home(root / "home").create()
        process = start(home, Command(name="postgres", argv=argv))
        try:
            server = Postgres(port=port, password=password, process=process)
            wait_until(lambda: _answers(server), 90.0, f"PostgreSQL on 127.0.0.1:{port} answers")
            yield server
        finally:
            send(process, signal.SIGINT)  # a fast shutdown: after SIGTERM it waits for its clients
            wait_until(lambda: not is_running(process), 60.0, "PostgreSQL ended")
            stop(process)
    finally:
        shutil.rmtree(root)


def _answers(server: Postgres) -> bool:
    if not is_running(server.process):
        raise Broken("PostgreSQL ended while it started; its log is in the state folder's logs")
    try:
        server.admin().close()
    except psycopg.OperationalError:
        return False
    return True


def _initialised(root: Path, binaries: Path, password: str) -> Path:
    """A cluster whose text is ordered by a language (ICU's root), not by code points."""
    secret, data = root / "password", root / "data"
    secret.write_text(password)
    data.mkdir(mode=0o700)
    if os.geteuid() == 0:
        root.chmod(0o711)
        for path in (secret, data):
            shutil.chown(path, "postgres", "postgres")
    argv = [str(binaries / "initdb"), "-D", str(data), "-U", USER, "--pwfile", str(secret), "--no-sync"]
    argv += [
        "-A",
        "scram-sha-256",
        "-E",
        "UTF8",
        "--locale-provider=icu",
        "--icu-locale=und",
        "--locale=C.UTF-8",
    ]
    subprocess.run([*_unprivileged(), *argv], check=True, capture_output=True, cwd=root)
    secret.unlink()
    return data


def _unprivileged() -> list[str]:
    """What to put before a command so that it does not run as root."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]


def _binaries() -> Path:
    """The folder of Debian's newest server; installs it first where it is missing and we may."""
    found = _installed()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        _NO_CLUSTER.parent.mkdir(parents=True, exist_ok=True)
        _NO_CLUSTER.write_text("create_main_cluster = false\n")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in ("update -qq", "install -y -qq --no-install-recommends postgresql"):
            subprocess.run(["apt-get", *words.split()], check=True, capture_output=True, env=environment)
        found = _installed()
    if found is None:
        raise Broken(
            "there is no PostgreSQL server here; install Debian's package: apt-get install postgresql"
        )
    return found


def _installed() -> Path | None:
    found = sorted(_DEBIAN.glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None
