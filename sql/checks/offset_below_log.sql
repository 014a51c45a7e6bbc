-- Committed offsets whose records are deleted: their reader begins where its own auto.offset.reset says.
SELECT o.topic,
       o.partition,
       concat('explained: the ', o.store, ' offset ', o.offset, ' is below the log start ', l.log_start,
              ': its reader begins at ', l.log_start,
              CASE WHEN l.log_start = l.log_end THEN ', whatever its auto.offset.reset says'
                   ELSE concat(' with auto.offset.reset=earliest (smallest), or at ', l.log_end, ' with latest (largest)')
              END) AS reason
FROM after_offsets AS o
JOIN after_log_ends AS l ON l.topic = o.topic AND l.partition = o.partition
LEFT ANTI JOIN leftovers AS u ON u.topic = o.topic AND u.partition = o.partition
WHERE o.offset < l.log_start
ORDER BY o.topic, o.partition, o.store
