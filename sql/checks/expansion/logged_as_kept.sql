-- Every commit that a snapshot has (`kept`) is live in the partition of the log where the count in use puts its group, with the
-- same offset, epoch and metadata, and no other is. `commits` are decoded from the bytes of the log; those elsewhere do not count.
SELECT `group`,
       topic,
       partition,
       CASE WHEN kept_offset IS NULL THEN concat('offset ', logged_offset, ' is in the log, and not in the snapshot')
            WHEN status IS NULL THEN concat('offset ', kept_offset, ' of the snapshot is not in the log')
            WHEN logged_offset IS NULL THEN concat('its record cannot be read (', status, ')')
            WHEN kept_offset <> logged_offset
            THEN concat('offset ', kept_offset, ' of the snapshot is ', logged_offset, ' in the log')
            WHEN kept_epoch <> logged_epoch
            THEN concat('leader epoch ', kept_epoch, ' of the snapshot is ', logged_epoch, ' in the log')
            ELSE concat(length(kept_metadata), ' characters of metadata of the snapshot are ', length(logged_metadata),
                        ' others in the log') END AS reason
FROM (SELECT `group`, topic, partition, offset AS kept_offset, leader_epoch AS kept_epoch, metadata AS kept_metadata FROM {kept})
FULL OUTER JOIN
     (SELECT group_id AS `group`, topic, partition, status, offset AS logged_offset, leader_epoch AS logged_epoch,
             metadata AS logged_metadata
      FROM {commits}
      WHERE NOT is_foreign AND NOT is_tombstone AND coalesce(offset, 0) >= 0)
USING (`group`, topic, partition)
WHERE kept_offset IS DISTINCT FROM logged_offset OR kept_epoch <> logged_epoch OR kept_metadata <> logged_metadata
ORDER BY `group`, topic, partition
