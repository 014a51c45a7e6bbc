-- Decoded records about committed offsets → one row a (group, topic, partition) with them in the order of the log. `says` is the
-- committed offset after a record; null: there is none (a tombstone, an unreadable value, a commit of -1).
SELECT group_id, topic, partition,
       array_sort(collect_list(named_struct(
         'record_offset', src_offset, 'says', if(committed_offset >= 0, committed_offset, NULL),
         'leader_epoch', coalesce(leader_epoch, -1), 'metadata', coalesce(metadata, ''),
         'commit_timestamp', coalesce(commit_timestamp_ms, -1), 'expire_timestamp', coalesce(expire_timestamp_ms, -1)))) AS lines
FROM {decoded}
GROUP BY group_id, topic, partition
