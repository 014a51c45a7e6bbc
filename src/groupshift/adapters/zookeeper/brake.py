"""The brake: one znode that everybody can write, also with ZooKeeper's own shell."""

from __future__ import annotations

from kazoo.exceptions import NodeExistsError, NoNodeError

from groupshift.adapters.zookeeper.connection import Session, ZookeeperConnection

PATH = "/groupshift/brake"
"""Its data is the reason. While it is there, nothing more is started."""


class ZookeeperBrake:
    """`groupshift.ports.ensemble.Brake`."""

    def __init__(self, connection: ZookeeperConnection) -> None:
        self._connection = connection

    def pulled(self) -> str:
        """See the port."""

        def look(session: Session) -> str:
            session.sync("/")
            (node,) = session.read([PATH])
            return "" if node is None else node.data.decode(errors="replace") or "no reason given"

        return self._connection.call(look)

    def pull(self, reason: str) -> None:
        """See the port."""

        def write(session: Session) -> None:
            try:
                session.create(PATH, reason.encode())
            except NodeExistsError:
                session.set(PATH, reason.encode(), -1)

        self._connection.call(write)

    def release(self) -> None:
        """See the port."""

        def remove(session: Session) -> None:
            try:
                session.delete(PATH, -1)
            except NoNodeError:
                return

        self._connection.call(remove)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
