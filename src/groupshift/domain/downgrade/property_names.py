"""Names of broker properties by the line of releases that knows them first: those that came after 3.4.

Read off ``KafkaConfig.configNames()`` of 3.4.1, 3.5.2, 3.6.2, 3.7.2, 3.8.1, 3.9.2, 4.0.2, 4.1.2, 4.2.1,
4.3.1 and 4.4.0. None of them was dropped again.
"""

from __future__ import annotations

_NAMES = {
    "3.5": """
        group.consumer.assignors group.consumer.heartbeat.interval.ms
        group.consumer.max.heartbeat.interval.ms group.consumer.max.session.timeout.ms
        group.consumer.max.size group.consumer.min.heartbeat.interval.ms
        group.consumer.min.session.timeout.ms group.consumer.session.timeout.ms group.coordinator.new.enable
        group.coordinator.threads server.max.startup.time.ms unstable.api.versions.enable
    """,
    "3.6": """
        log.local.retention.bytes log.local.retention.ms log.message.timestamp.after.max.ms
        log.message.timestamp.before.max.ms remote.log.metadata.custom.metadata.max.bytes
        transaction.partition.verification.enable zookeeper.metadata.migration.min.batch.size
    """,
    "3.7": """
        eligible.leader.replicas.enable group.coordinator.rebalance.protocols ssl.allow.dn.changes
        ssl.allow.san.changes telemetry.max.bytes unstable.metadata.versions.enable
    """,
    "3.8": """
        compression.gzip.level compression.lz4.level compression.zstd.level
        controller.quorum.bootstrap.servers group.consumer.migration.policy
        group.coordinator.append.linger.ms log.dir.failure.timeout.ms log.initial.task.delay.ms
        max.request.partition.size.limit remote.fetch.max.wait.ms remote.log.manager.copier.thread.pool.size
        remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num
        remote.log.manager.copy.quota.window.size.seconds remote.log.manager.expiration.thread.pool.size
        remote.log.manager.fetch.max.bytes.per.second remote.log.manager.fetch.quota.window.num
        remote.log.manager.fetch.quota.window.size.seconds unstable.feature.versions.enable
    """,
    "3.9": """
        alter.config.policy.kraft.compatibility.enable group.share.delivery.count.limit group.share.enable
        group.share.heartbeat.interval.ms group.share.max.groups group.share.max.heartbeat.interval.ms
        group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms group.share.max.size
        group.share.min.heartbeat.interval.ms group.share.min.record.lock.duration.ms
        group.share.min.session.timeout.ms group.share.partition.max.record.locks
        group.share.record.lock.duration.ms group.share.session.timeout.ms
        unclean.leader.election.interval.ms
    """,
    "4.0": """
        add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
        controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
        group.share.persister.class.name remote.list.offsets.request.timeout.ms
        share.coordinator.append.linger.ms share.coordinator.load.buffer.size
        share.coordinator.snapshot.update.records.per.snapshot
        share.coordinator.state.topic.compression.codec share.coordinator.state.topic.min.isr
        share.coordinator.state.topic.num.partitions share.coordinator.state.topic.prune.interval.ms
        share.coordinator.state.topic.replication.factor share.coordinator.state.topic.segment.bytes
        share.coordinator.threads share.coordinator.write.timeout.ms share.fetch.max.fetch.records
        share.fetch.purgatory.purge.interval.requests
    """,
    "4.1": """
        group.consumer.regex.refresh.interval.ms group.share.assignors group.share.max.share.sessions
        group.streams.heartbeat.interval.ms group.streams.max.heartbeat.interval.ms
        group.streams.max.session.timeout.ms group.streams.max.size group.streams.max.standby.replicas
        group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms
        group.streams.num.standby.replicas group.streams.session.timeout.ms
        internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes
        internal.metadata.max.batch.size.in.bytes internal.metadata.max.fetch.size.in.bytes
        sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
        sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
        sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
        sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
        sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
        sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
        sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.jwt.retriever.class
        sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope
        share.coordinator.cold.partition.snapshot.interval.ms transaction.two.phase.commit.enable
    """,
    "4.2": """
        config.providers controller.quorum.auto.join.enable group.share.initialize.retry.interval.ms
        group.streams.initial.rebalance.delay.ms remote.log.manager.follower.thread.pool.size
    """,
    "4.3": """
        controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes cordoned.log.dirs
        follower.fetch.last.tiered.offset.enable group.consumer.assignment.interval.ms
        group.consumer.max.assignment.interval.ms group.consumer.min.assignment.interval.ms
        group.coordinator.background.threads group.coordinator.cached.buffer.max.bytes
        group.share.assignment.interval.ms group.share.max.assignment.interval.ms
        group.share.max.delivery.count.limit group.share.max.partition.max.record.locks
        group.share.min.assignment.interval.ms group.share.min.delivery.count.limit
        group.share.min.partition.max.record.locks group.streams.assignment.interval.ms
        group.streams.max.assignment.interval.ms group.streams.min.assignment.interval.ms
        remote.log.index.file.cache.ttl.ms share.coordinator.cached.buffer.max.bytes
    """,
    "4.4": """
        errors.deadletterqueue.auto.create.topics.enable errors.deadletterqueue.topic.name.prefix
        group.consumer.assignor.offload.enable group.share.assignor.offload.enable
        group.share.dlq.manager.class.name group.streams.acceptable.recovery.lag
        group.streams.assignor.offload.enable group.streams.assignors group.streams.max.warmup.replicas
        group.streams.min.task.offset.interval.ms group.streams.num.warmup.replicas
        group.streams.rack.aware.assignment.tags group.streams.task.offset.interval.ms
        group.streams.topology.description.plugin.class log.remote.copy.lag.bytes log.remote.copy.lag.ms
        max.decompressed.message.bytes sasl.oauthbearer.allow.unverified.audience
        sasl.oauthbearer.allow.unverified.issuer
    """,
}

FIRST_LINE = {name: line for line, names in _NAMES.items() for name in names.split()}
"""Name → line, such as ``4.3``; what is not in it is as old as 3.4, or a plugin's."""
