-- Committed offsets of another cluster whose number proves nothing although it lies within the log: one that stayed at 0 or 1 while
-- the source went on, and the very number of the source where the two logs are not the same.
SELECT `group`, topic, partition, reason
FROM (
  SELECT a.`group`, a.topic, a.partition,
         CASE WHEN a.offset <= 1 AND b.offset > a.offset
              THEN concat('offset ', a.offset, ' may be where the copy began: the source has ', b.offset)
              WHEN a.offset = b.offset AND a.offset > 0
                   AND NOT coalesce(s.log_start = t.log_start AND s.log_end = t.log_end, false)
              THEN concat('offset ', a.offset, ' is the number of the source, whose log is ',
                          coalesce(concat('[', s.log_start, ', ', s.log_end, ']'), 'not told'), ' and not ',
                          coalesce(concat('[', t.log_start, ', ', t.log_end, ']'), 'told here')) END AS reason
  FROM {after} AS a
  JOIN {before} AS b ON b.`group` = a.`group` AND b.topic = a.topic AND b.partition = a.partition
  LEFT JOIN {before_ends} AS s ON s.topic = a.topic AND s.partition = a.partition
  LEFT JOIN {after_ends} AS t ON t.topic = a.topic AND t.partition = a.partition)
WHERE reason IS NOT NULL
