-- Kafka mode, partitions held by an owner node: znode <= Kafka <= znode + :gap records.
WITH pairs AS (
  SELECT k.topic, k.partition, z.offset AS znode, k.offset AS kafka
  FROM after_offsets AS k
  LEFT JOIN after_offsets AS z ON z.topic = k.topic AND z.partition = k.partition AND z.store = 'zookeeper'
  WHERE k.store = 'kafka')
SELECT p.topic,
       p.partition,
       CASE WHEN p.znode IS NULL THEN concat('Kafka has ', p.kafka, ' and there is no znode: a rollback would start elsewhere')
            WHEN p.znode > p.kafka THEN concat('the znode ', p.znode, ' is ahead of Kafka ', p.kafka)
            ELSE concat('the znode ', p.znode, ' is ', p.kafka - p.znode, ' behind Kafka ', p.kafka,
                        ', more than one commit interval (', :gap, ')') END AS reason
FROM pairs AS p
LEFT SEMI JOIN after_owners AS o ON o.topic = p.topic AND o.partition = p.partition AND o.store = 'zookeeper'
WHERE p.znode IS NULL OR p.znode > p.kafka OR p.kafka > p.znode + :gap
ORDER BY p.topic, p.partition
