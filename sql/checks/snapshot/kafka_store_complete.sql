-- Kafka mode: every partition that a member reads and that has a position anywhere has one in Kafka (a plain consumer
-- reads only that).
SELECT z.topic,
       z.partition,
       concat('the znode has ', z.offset, ', Kafka has nothing: a plain consumer would use its reset policy') AS reason
FROM after_offsets AS z
LEFT ANTI JOIN after_offsets AS k ON k.topic = z.topic AND k.partition = z.partition AND k.store = 'kafka'
LEFT ANTI JOIN leftovers AS u ON u.topic = z.topic AND u.partition = z.partition
WHERE z.store = 'zookeeper'
ORDER BY z.topic, z.partition
