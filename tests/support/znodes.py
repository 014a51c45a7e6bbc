"""Znodes as a reader of ZooKeeper is given them, without a server."""

from __future__ import annotations

from kazoo.protocol.states import ZnodeStat

from groupshift.adapters.zookeeper.session import Node


def znode(path: str, data: bytes, owner: int = 7, czxid: int = 5) -> Node:
    """A znode at ``path``, ephemeral unless ``owner`` is 0, as it was created."""
    return Node(path=path, data=data, stat=ZnodeStat(czxid, czxid, 0, 0, 0, 0, 0, owner, len(data), 0, 0))
