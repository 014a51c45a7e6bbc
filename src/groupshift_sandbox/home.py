"""Where a sandbox lives on disk: every path below its home folder."""

from __future__ import annotations

import os
from pathlib import Path


class Home:
    """The folder of one sandbox; two sandboxes never share one. ``root`` is absolute."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state_file = root / "state.json"
        """Processes with pid and start ticks, addresses and URLs (JSON)."""
        self.settings_file = root / "settings.toml"
        """What ``groupshift --settings`` reads to work on this sandbox (TOML)."""
        self.fleet_file = root / "fleet.json"
        """What the supervisor runs: group, topic, servers and slots (JSON)."""
        self.supervisor_file = root / "supervisor.json"
        """The supervisor's persisted desired state (JSON)."""
        self.supervisor_socket = root / "supervisor.sock"
        """The supervisor's Unix socket."""
        self.logs = root / "logs"
        """One log file a process."""
        self.ledgers = root / "ledgers"
        """One file a member: what was delivered to it."""
        self.members = root / "members"
        """One file a member: the state it exports."""
        self.configuration = root / "configuration"
        """Configuration files of the servers and of the Scala members."""
        self.zookeeper = root / "zookeeper"
        """ZooKeeper's data and transaction log."""
        self.kafka = root / "kafka"
        """The broker's log directory."""
        self.evidence = root / "evidence"
        """Root of the evidence."""
        self.journal = root / "journal.db"
        """The journal's SQLite file."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Home) and self.root == other.root

    def __hash__(self) -> int:
        return hash(self.root)

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
