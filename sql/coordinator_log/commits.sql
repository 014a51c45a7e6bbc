-- Winning commits of decoded winners, tombstones among them; `is_foreign` ones lie outside their group's partition and are
-- never merged with the others (group-coordinator.md §1.7). A key with bytes left over names the same commit as the one without: the later wins.
-- Fields that the version lacks have Kafka's defaults. No WITH (docs/adr/0017).
SELECT group_id, topic, partition, src_partition, src_offset AS record_offset, record_ts, record_type, is_tombstone,
       decode_status AS status, value_version, committed_offset AS offset, coalesce(leader_epoch, -1) AS leader_epoch,
       coalesce(metadata, '') AS metadata, coalesce(commit_timestamp_ms, -1) AS commit_timestamp,
       coalesce(expire_timestamp_ms, -1) AS expire_timestamp, coalesce(topic_id, '') AS topic_id, expected_partition, is_foreign
FROM (
  SELECT *, row_number() OVER (PARTITION BY src_partition, group_id, topic, partition ORDER BY src_offset DESC) AS rank
  FROM {decoded}
  WHERE record_type IN (0, 1) AND group_id IS NOT NULL)
WHERE rank = 1
