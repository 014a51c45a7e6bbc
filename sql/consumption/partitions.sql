-- What was delivered of each partition.
SELECT topic, partition, count(*) AS deliveries, min(offset) AS first_offset, max(offset) AS last_offset
FROM deliveries
GROUP BY topic, partition
ORDER BY topic, partition
