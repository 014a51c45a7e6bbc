-- What was delivered of each partition, what of it again, and how often and for how long it changed hands within the window.
SELECT d.topic, d.partition, d.deliveries, d.first_offset, d.last_offset,
       coalesce(a.records, 0) AS duplicates, coalesce(a.unexplained, 0) AS unexplained,
       coalesce(h.hand_overs, 0) AS hand_overs, coalesce(h.longest.unowned_ms, 0) AS longest_unowned_ms,
       h.released_ms AS longest_unowned_at_ms
FROM (
  SELECT topic, partition, count(*) AS deliveries, min(offset) AS first_offset, max(offset) AS last_offset
  FROM deliveries GROUP BY topic, partition) AS d
LEFT JOIN (
  SELECT topic, partition, sum(records) AS records, count_if(objection IS NOT NULL) AS unexplained
  FROM duplicates WHERE first_ms BETWEEN :from_ms AND :to_ms GROUP BY topic, partition) AS a
  ON a.topic = d.topic AND a.partition = d.partition
LEFT JOIN (
  SELECT topic, partition, count(*) AS hand_overs, max(struct(unowned_ms, -number AS earlier)) AS longest,
         max_by(released_ms, struct(unowned_ms, -number)) AS released_ms
  FROM hand_overs WHERE giver IS NOT NULL AND start_ms BETWEEN :from_ms AND :to_ms GROUP BY topic, partition) AS h
  ON h.topic = d.topic AND h.partition = d.partition
ORDER BY d.topic, d.partition
