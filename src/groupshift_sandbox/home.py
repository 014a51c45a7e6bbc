"""Where a sandbox lives on disk: every path below its home folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of one sandbox; two sandboxes never share one. ``root`` is absolute."""

    root: Path

    @classmethod
    def from_environment(cls) -> Home:
        """``GROUPSHIFT_HOME``, by default ``.groupshift/sandbox`` in the working directory."""
        return cls(Path(os.environ.get("GROUPSHIFT_HOME") or ".groupshift/sandbox").resolve())

    def create(self) -> Home:
        """Make the folders that processes write into; safe to repeat. Only their owner may look in: what runs
        there has no logins, and its journal and evidence are nobody else's."""
        folders = (self.root, self.logs, self.ledgers, self.members, self.configuration, self.evidence)
        for folder in folders:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)
        return self

    @property
    def state_file(self) -> Path:
        """Processes with pid and start ticks, addresses and URLs (JSON)."""
        return self.root / "state.json"

    @property
    def settings_file(self) -> Path:
        """What ``groupshift --settings`` reads to work on this sandbox (TOML)."""
        return self.root / "settings.toml"

    @property
    def fleet_file(self) -> Path:
        """What the supervisor runs: group, topic, servers and slots (JSON)."""
        return self.root / "fleet.json"

    @property
    def supervisor_file(self) -> Path:
        """The supervisor's persisted desired state (JSON)."""
        return self.root / "supervisor.json"

    @property
    def supervisor_socket(self) -> Path:
        """The supervisor's Unix socket."""
        return self.root / "supervisor.sock"

    @property
    def logs(self) -> Path:
        """One log file a process."""
        return self.root / "logs"

    @property
    def ledgers(self) -> Path:
        """One file a member: what was delivered to it."""
        return self.root / "ledgers"

    @property
    def members(self) -> Path:
        """One file a member: the state it exports."""
        return self.root / "members"

    @property
    def configuration(self) -> Path:
        """Configuration files of the servers and of the Scala members."""
        return self.root / "configuration"

    @property
    def zookeeper(self) -> Path:
        """ZooKeeper's data and transaction log."""
        return self.root / "zookeeper"

    @property
    def kafka(self) -> Path:
        """The broker's log directory."""
        return self.root / "kafka"

    @property
    def evidence(self) -> Path:
        """Root of the evidence."""
        return self.root / "evidence"

    @property
    def journal(self) -> Path:
        """The journal's SQLite file."""
        return self.root / "journal.db"
