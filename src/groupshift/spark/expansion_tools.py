"""Every port of an expansion's run over the real adapters, opened together and closed together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from groupshift.application.expansion_work import ExpansionTools
from groupshift.bootstrap.placement import offset_restoring, placement_views, topic_expansion
from groupshift.ports.driver import BrokerReplacement
from groupshift.spark.logged_offsets import SparkLogVerification
from groupshift.spark.run_tools import RunPlace, brokers_of, shared


@contextmanager
def open_tools(place: RunPlace, nodes: BrokerReplacement, *, timeout_s: float) -> Iterator[ExpansionTools]:
    """Connections open at first use. Raises `Rejected` for an address or a URL that cannot be used."""
    with ExitStack() as stack:
        views = placement_views(place.kafka, timeout_s=timeout_s)
        stack.callback(views.close)
        topic = topic_expansion(place.kafka, timeout_s=timeout_s)
        stack.callback(topic.close)
        restoring = offset_restoring(place.kafka, timeout_s=timeout_s)
        stack.callback(restoring.close)
        fields = shared(stack, place, nodes, timeout_s)
        verify = SparkLogVerification(brokers=brokers_of(place, timeout_s), java_home=place.java_home)
        yield ExpansionTools(views=views, topic=topic, restoring=restoring, verify=verify, **fields)
