-- The keys of committed offsets that differ, each in one class (the first that fits), with the number of the rule that
-- decides and whether it allows the difference. {before} and {after} have the key and every value; a value that the rules
-- do not compare is null on both sides. {rules} says field, number and kind of each rule, {log_ends} the ends of the
-- later snapshot (no row: not known).
--
-- Rows of both snapshots are brought together by their whole key and counted there, not joined: a group of millions of
-- rows is spread over all tasks, and a key that occurs a thousand times on each side makes one row of class duplicate,
-- not a million.
WITH sided AS (
  SELECT `group`, topic, partition, 1 AS before_rows, 0 AS after_rows, struct(*) AS before, NULL AS after FROM {before}
  UNION ALL
  SELECT `group`, topic, partition, 0, 1, NULL, struct(*) FROM {after}),
pairs AS (
  SELECT `group`, topic, partition,
         CAST(sum(before_rows) AS INT) AS before_rows,
         CAST(sum(after_rows) AS INT)  AS after_rows,
         max(before.offset)              AS before_offset,              max(after.offset)              AS after_offset,
         max(before.leader_epoch)        AS before_leader_epoch,        max(after.leader_epoch)        AS after_leader_epoch,
         max(before.metadata)            AS before_metadata,            max(after.metadata)            AS after_metadata,
         max(before.commit_timestamp_ms) AS before_commit_timestamp_ms, max(after.commit_timestamp_ms) AS after_commit_timestamp_ms,
         max(before.expire_timestamp_ms) AS before_expire_timestamp_ms, max(after.expire_timestamp_ms) AS after_expire_timestamp_ms,
         max(before.topic_id)            AS before_topic_id,            max(after.topic_id)            AS after_topic_id,
         max(before.record_sha256)       AS before_record_sha256,       max(after.record_sha256)       AS after_record_sha256
  FROM sided
  GROUP BY `group`, topic, partition),
decided AS (
  SELECT *,
         CASE WHEN before_rows > 1 OR after_rows > 1 THEN 'keys'
              WHEN after_rows = 0 OR before_rows = 0 THEN 'committed'
              WHEN after_offset <> before_offset THEN 'offset'
              WHEN after_leader_epoch <> before_leader_epoch THEN 'leader_epoch'
              WHEN after_metadata <> before_metadata THEN 'metadata'
              WHEN after_commit_timestamp_ms <> before_commit_timestamp_ms THEN 'commit_timestamp_ms'
              WHEN after_expire_timestamp_ms <> before_expire_timestamp_ms THEN 'expire_timestamp_ms'
              -- only where both ids are known: older writers leave them out
              WHEN before_topic_id <> '' AND after_topic_id <> '' AND after_topic_id <> before_topic_id THEN 'topic_id'
              WHEN after_record_sha256 <> before_record_sha256 THEN 'record_sha256' END AS field
  FROM pairs)
SELECT /*+ BROADCAST(r, e) */
       CASE d.field
         WHEN 'keys' THEN 'duplicate'
         WHEN 'committed' THEN CASE WHEN after_rows = 0 THEN 'lost' ELSE 'extra' END
         WHEN 'offset' THEN CASE WHEN after_offset < before_offset THEN 'regressed' ELSE 'advanced' END
         WHEN 'leader_epoch' THEN 'leader_epoch'
         WHEN 'metadata' THEN 'metadata_only'
         WHEN 'commit_timestamp_ms' THEN 'timestamp'
         WHEN 'expire_timestamp_ms' THEN 'timestamp'
         ELSE 'record' END AS class,
       r.number AS rule, d.`group`, d.topic, d.partition,
       before_offset, after_offset, before_leader_epoch, after_leader_epoch, before_metadata, after_metadata,
       before_commit_timestamp_ms, after_commit_timestamp_ms, before_expire_timestamp_ms, after_expire_timestamp_ms,
       before_topic_id, after_topic_id, before_record_sha256, after_record_sha256,
       before_rows, after_rows, e.log_end,
       coalesce(CASE WHEN r.kind = 'forward' AND d.field = 'offset' THEN after_offset > before_offset AND after_offset <= e.log_end
                     WHEN r.kind <> 'at least' THEN false
                     WHEN d.field = 'offset' THEN after_offset >= before_offset
                     WHEN d.field = 'leader_epoch' THEN after_leader_epoch >= before_leader_epoch
                     WHEN d.field = 'commit_timestamp_ms' THEN after_commit_timestamp_ms >= before_commit_timestamp_ms
                     WHEN d.field = 'expire_timestamp_ms' THEN after_expire_timestamp_ms >= before_expire_timestamp_ms END,
                false) AS allowed
FROM decided AS d
JOIN {rules} AS r ON r.field = d.field
LEFT JOIN (SELECT topic, partition, min(log_end) AS log_end FROM {log_ends} GROUP BY topic, partition) AS e
  ON e.topic = d.topic AND e.partition = d.partition
