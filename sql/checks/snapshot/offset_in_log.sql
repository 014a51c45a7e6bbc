-- A committed offset of a partition that a member reads is not beyond its log's end. (Below its start it is explained,
-- see offset_below_log.sql.)
SELECT o.topic,
       o.partition,
       CASE WHEN l.topic IS NULL
            THEN concat('the ', o.store, ' offset ', o.offset, ' belongs to a partition unknown to the brokers')
            ELSE concat('the ', o.store, ' offset ', o.offset, ' is outside the log [', l.log_start, ', ', l.log_end, ']')
       END AS reason
FROM after_offsets AS o
LEFT JOIN after_log_ends AS l ON l.topic = o.topic AND l.partition = o.partition
LEFT ANTI JOIN leftovers AS u ON u.topic = o.topic AND u.partition = o.partition
WHERE l.topic IS NULL OR o.offset > l.log_end
ORDER BY o.topic, o.partition, o.store
