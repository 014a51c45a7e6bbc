-- Who had a partition, one row a tenure: an owner interval, or a run of deliveries of a plain consumer.
-- zxid is that of the owner node's creation, null for a run; seen_* span the deliveries within the tenure.
WITH within AS (
  SELECT topic, partition, start_zxid, min(offset) AS first_offset, max(offset) AS last_offset,
         min(at_ms) AS seen_from_ms, max(at_ms) AS seen_to_ms, count(*) AS records
  FROM located
  WHERE start_zxid IS NOT NULL
  GROUP BY topic, partition, start_zxid)
SELECT i.topic, i.partition, i.member, i.kind, 'owner node' AS known_by, i.start_zxid AS zxid,
       i.start_ms, i.end_ms, i.ended, w.first_offset, w.last_offset, w.seen_from_ms, w.seen_to_ms,
       coalesce(w.records, 0) AS records
FROM intervals AS i
LEFT JOIN within AS w ON w.topic = i.topic AND w.partition = i.partition AND w.start_zxid = i.start_zxid
UNION ALL
SELECT topic, partition, member, 'plain', 'deliveries', NULL, start_ms, end_ms, 'run', first_offset, last_offset,
       start_ms, end_ms, records
FROM runs
