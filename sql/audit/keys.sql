-- Every (group, topic, partition) of which some source has an offset, one row each, with what each source says of it. `agrees`:
-- all of them say the same without a closer look; false says nothing yet.
SELECT *,
       coalesce(has_winner AND status = 'ok' AND answer_offset >= 0 AND answer_offset = winner_offset
                AND answer_metadata = winner_metadata AND answer_epoch = winner_epoch AND NOT has_foreign
                AND (NOT in_zookeeper OR node_offset <=> answer_offset)
                AND (log_end IS NULL OR answer_offset BETWEEN log_start AND log_end)
                AND NOT (former_topic OR no_partition OR epoch_above OR epoch_low), false) AS agrees
FROM (
  SELECT k.group_id, k.topic, k.partition,
         a.offset AS answer_offset, coalesce(a.metadata, '') AS answer_metadata, coalesce(a.leader_epoch, -1) AS answer_epoch,
         w.group_id IS NOT NULL AS has_winner, w.src_partition, w.record_offset, w.record_ts, w.is_tombstone, w.status,
         w.offset AS winner_offset, w.metadata AS winner_metadata, w.leader_epoch AS winner_epoch,
         f.group_id IS NOT NULL AS has_foreign, f.offsets AS foreign_offsets, f.moving, f.first_offset, f.first_partition,
         z.group_id IS NOT NULL AS in_zookeeper, z.mode, z.members, z.aware, z.troubled,
         n.offset AS node_offset, e.log_start, e.log_end,
         coalesce(a.lacking, false) AS no_partition, coalesce(a.epoch_above, false) AS epoch_above,
         coalesce(a.epoch_low, false) AS epoch_low,
         CASE WHEN a.offset IS NULL OR a.offset < 0 OR a.lacking THEN false
              WHEN w.topic_id NOT IN ('', 'AAAAAAAAAAAAAAAAAAAAAA') AND NOT w.is_tombstone THEN coalesce(t.topic_id <> '' AND w.topic_id <> t.topic_id, false)
              ELSE a.former END AS former_topic
  FROM (SELECT group_id, topic, partition FROM {answers}
        UNION SELECT group_id, topic, partition FROM {commits} WHERE NOT is_tombstone
        UNION SELECT group_id, topic, partition FROM {nodes}) AS k
  LEFT JOIN {answers} AS a ON a.group_id = k.group_id AND a.topic = k.topic AND a.partition = k.partition
  LEFT JOIN {commits} AS w ON NOT w.is_foreign AND w.group_id = k.group_id AND w.topic = k.topic AND w.partition = k.partition
  LEFT JOIN {elsewhere} AS f ON f.group_id = k.group_id AND f.topic = k.topic AND f.partition = k.partition
  LEFT JOIN {ensemble} AS z ON z.group_id = k.group_id
  LEFT JOIN {nodes} AS n ON n.group_id = k.group_id AND n.topic = k.topic AND n.partition = k.partition
  LEFT JOIN {topics} AS t ON t.topic = k.topic
  LEFT JOIN {ends} AS e ON e.topic = k.topic AND e.partition = k.partition)
