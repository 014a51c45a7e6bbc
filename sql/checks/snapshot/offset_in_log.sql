-- A committed offset lies within the log: log start <= offset <= log end.
SELECT o.topic,
       o.partition,
       CASE WHEN l.topic IS NULL
            THEN concat('the ', o.store, ' offset ', o.offset, ' belongs to a partition unknown to the brokers')
            ELSE concat('the ', o.store, ' offset ', o.offset, ' is outside the log [', l.log_start, ', ', l.log_end, ']')
       END AS reason
FROM after_offsets AS o
LEFT JOIN after_log_ends AS l ON l.topic = o.topic AND l.partition = o.partition
WHERE l.topic IS NULL OR o.offset < l.log_start OR o.offset > l.log_end
ORDER BY o.topic, o.partition, o.store
