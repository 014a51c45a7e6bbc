-- The set of partitions of the topics that the group reads is the same in both snapshots.
SELECT coalesce(b.topic, a.topic)         AS topic,
       coalesce(b.partition, a.partition) AS partition,
       CASE WHEN a.topic IS NULL THEN 'the partition was there before and is missing now'
            ELSE 'the partition was not there before' END AS reason
FROM (SELECT DISTINCT topic, partition FROM before_log_ends) AS b
FULL OUTER JOIN (SELECT DISTINCT topic, partition FROM after_log_ends) AS a
  ON a.topic = b.topic AND a.partition = b.partition
LEFT ANTI JOIN leftovers AS u
  ON u.topic = coalesce(b.topic, a.topic) AND u.partition = coalesce(b.partition, a.partition)
WHERE a.topic IS NULL OR b.topic IS NULL
ORDER BY topic, partition
