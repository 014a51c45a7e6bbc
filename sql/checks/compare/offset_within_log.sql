-- Every committed offset of the later snapshot lies within its log: log start <= offset <= log end.
SELECT o.`group`,
       o.topic,
       o.partition,
       CASE WHEN l.topic IS NULL
            THEN concat('offset ', o.offset, ' belongs to a partition unknown to the brokers')
            ELSE concat('offset ', o.offset, ' is outside the log [', l.log_start, ', ', l.log_end, ']') END AS reason
FROM after_committed AS o
LEFT JOIN after_log_ends AS l ON l.topic = o.topic AND l.partition = o.partition
WHERE l.topic IS NULL OR o.offset < l.log_start OR o.offset > l.log_end
