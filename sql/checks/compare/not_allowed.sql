-- The first differences (at most :most) that each rule does not allow, by their keys.
SELECT rule,
       `group`,
       topic,
       partition,
       CASE class
         WHEN 'duplicate' THEN concat('committed ', before_rows, ' times before and ', after_rows, ' times after')
         WHEN 'lost' THEN 'its offset is gone'
         WHEN 'extra' THEN 'it had no offset before'
         WHEN 'regressed' THEN concat('its offset went back from ', before_offset, ' to ', after_offset)
         WHEN 'advanced' THEN concat('its offset advanced from ', before_offset, ' to ', after_offset,
                                     CASE WHEN log_end < after_offset THEN concat(', beyond the log end ', log_end)
                                          WHEN log_end IS NULL THEN ' (log end unknown)' ELSE '' END)
         WHEN 'leader_epoch' THEN concat('its leader epoch went from ', before_leader_epoch, ' to ', after_leader_epoch)
         WHEN 'metadata_only' THEN concat('its metadata went from ', to_json(struct(before_metadata AS was)), ' to ',
                                          to_json(struct(after_metadata AS is_now)))
         WHEN 'timestamp' THEN concat('its time went from ', coalesce(before_commit_timestamp_ms, -1), ' to ',
                                      coalesce(after_commit_timestamp_ms, -1), ', its expiry from ',
                                      coalesce(before_expire_timestamp_ms, -1), ' to ',
                                      coalesce(after_expire_timestamp_ms, -1))
         ELSE CASE WHEN before_topic_id <> '' AND after_topic_id <> '' AND before_topic_id <> after_topic_id
                   THEN concat('it belonged to the topic id ', before_topic_id, ', now to ', after_topic_id,
                               ': a former topic of the same name is meant, or was')
                   ELSE 'the bytes of its record changed' END END AS reason
FROM (SELECT *, row_number() OVER (PARTITION BY rule ORDER BY `group`, topic, partition) AS at
      FROM differences
      WHERE NOT allowed)
WHERE at <= :most
