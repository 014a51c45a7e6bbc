-- A column for every fact that a rule of the audit asks, true or false, beside what the sources say of the keys in {bracket}.
SELECT group_id, topic, partition, answered, logged, node_offset AS zookeeper, if(in_zookeeper, mode, NULL) AS mode,
       src_partition AS log_partition, record_offset AS log_offset, first_partition AS foreign_partition,
       first_offset AS foreign_offset, log_end,
       answered_in_full, answered IS NOT NULL AS has_answer, logged IS NOT NULL AS has_logged,
       coalesce(is_tombstone, false) AS is_tombstone, coalesce(cannot_be_read, false) AS unreadable, agree AS agrees,
       agree OR exists(bracket, x -> x.says <=> answered) OR (answered IS NULL AND size(before) = 0) AS follows,
       answered IS NULL OR exists(bracket, x -> x.says <=> answered AND x.metadata = answer_metadata
                                                AND x.leader_epoch = answer_epoch) AS same_details,
       answered IS NOT NULL AND exists(lines, x -> x.says <=> answered) AS served_before,
       overdue, silent, has_foreign, coalesce(moving, false) AS foreign_moving,
       coalesce(answered IS NOT NULL AND array_contains(foreign_offsets, answered), false) AS answers_foreign,
       coalesce(answered > log_end, false) AS beyond_end, coalesce(answered < log_start, false) AS below_start,
       former_topic, no_partition, epoch_above, epoch_low,
       node_offset IS NOT NULL AS has_node, coalesce(troubled, false) AS nodes_unread,
       answered IS NULL AND agree AND node_offset IS NOT NULL AS only_node,
       coalesce(by_retention, false) AS expired, coalesce(NOT by_retention, false) AS removed,
       coalesce(mode = 'kafka', false) AS kafka_mode,
       NOT in_zookeeper OR node_offset <=> answered
         OR (node_offset IS NOT NULL AND exists(bracket, x -> x.says <=> node_offset)) AS stores_agree,
       behind AS node_behind,
       coalesce(:now_ms - first_beyond.commit_timestamp <= :interval_ms, false) AS node_within_interval,
       coalesce(node_offset IS NOT NULL AND last_live.commit_timestamp >= 0
                AND :now_ms - last_live.commit_timestamp <= :interval_ms, false) AS kafka_within_interval,
       coalesce(last_live.commit_timestamp >= 0, false) AS kafka_dated,
       coalesce(if(behind, members = 0, mode <> 'kafka' AND aware = 0), false) AS unwritten
FROM (
  SELECT b.*, g.group_id IS NOT NULL AS answered_in_full, s.src_partition IS NOT NULL AS silent, r.group_id IS NOT NULL AS overdue,
         coalesce(answered <=> logged AND NOT (cannot_be_read AND logged IS NULL), false) AS agree,
         coalesce(answered IS NOT NULL AND (node_offset IS NULL OR node_offset < answered), false) AS behind,
         CASE WHEN NOT is_tombstone OR last_live IS NULL THEN NULL
              WHEN last_live.expire_timestamp >= 0 THEN last_live.expire_timestamp <= record_ts
              WHEN :retention_ms IS NULL THEN NULL
              ELSE last_live.commit_timestamp + :retention_ms <= record_ts END AS by_retention
  FROM {bracket} AS b
  LEFT JOIN {asked} AS g ON g.group_id = b.group_id
  LEFT JOIN {silent} AS s ON s.src_partition = b.src_partition
  LEFT JOIN {overdue} AS r ON r.group_id = b.group_id AND r.topic = b.topic AND r.partition = b.partition)
