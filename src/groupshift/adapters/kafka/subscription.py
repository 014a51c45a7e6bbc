"""Topics in the subscription bytes a classic consumer sends when it joins (ConsumerProtocolSubscription).

Source: Apache Kafka, "ConsumerProtocolSubscription.json": int16 version, array of strings (topics),
nullable bytes (user data); later versions only append.
"""

from __future__ import annotations

import struct


def subscribed_topics(metadata: bytes) -> tuple[str, ...]:
    """The topics, sorted; empty bytes (a member still joining) give none. Raises ValueError."""
    if not metadata:
        return ()
    try:
        _, count = struct.unpack_from(">hi", metadata, 0)
        at, topics = 6, []
        for _ in range(count):
            (size,) = struct.unpack_from(">h", metadata, at)
            name = metadata[at + 2 : at + 2 + size]
            if size < 1 or len(name) != size:
                raise ValueError(f"topic name of {size} bytes at byte {at}")
            topics.append(name.decode())
            at += 2 + size
    except struct.error as short:
        raise ValueError(f"{len(metadata)} bytes end too early") from short
    return tuple(sorted(topics))
