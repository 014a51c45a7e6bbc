"""Where the brokers are, from ZooKeeper: for a consumer that was given no ``bootstrap.servers``."""

from __future__ import annotations

from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from groupshift.adapters.zookeeper.login import ZookeeperLogin, make_client
from groupshift.domain.znodes import BROKER_IDS, parse_broker
from groupshift.errors import Rejected, Transient


def find_brokers(hosts: str, timeout: float, protocol: str, login: ZookeeperLogin) -> str:
    """``host:port,…`` of every broker's first endpoint that speaks ``protocol``; broker JSON 1 to 5 (§1.3).

    Raises `Transient` without an answer in ``timeout`` seconds or without any broker, `Rejected` when no
    broker has such an endpoint."""
    client = make_client(hosts, timeout, login)
    try:
        client.start(timeout=timeout)
        read = [client.get(f"{BROKER_IDS}/{each}")[0] for each in client.get_children(BROKER_IDS)]
    except NoNodeError as error:
        raise Transient(f"zookeeper.connect {hosts!r}: no broker is registered there; start them") from error
    except (KazooException, KazooTimeoutError, OSError) as error:
        raise Transient(f"zookeeper.connect {hosts!r}: no answer in {timeout:g} s ({error})") from error
    finally:
        client.stop()
        client.close()
    if not read:
        raise Transient(f"zookeeper.connect {hosts!r}: no broker is registered there; start them")
    endpoints = [each for data in read for each in parse_broker(data).endpoints if each.protocol == protocol]
    if not endpoints:
        raise Rejected(f"no broker speaks security.protocol {protocol!r}; set bootstrap.servers")
    return ",".join(sorted({f"{each.host}:{each.port}" for each in endpoints}))
