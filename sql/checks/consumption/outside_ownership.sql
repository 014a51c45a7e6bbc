-- Deliveries of members with owner nodes that lie in no interval of their own; judged per member and partition.
WITH outside AS (
  SELECT topic, partition, member, at_ms, offset FROM located WHERE start_zxid IS NULL AND kind <> 'plain'),
elsewhere AS (
  SELECT o.*, i.member AS holder
  FROM outside AS o
  LEFT JOIN intervals AS i
    ON i.topic = o.topic AND i.partition = o.partition AND i.member <> o.member
    AND o.at_ms > i.start_ms AND o.at_ms < i.end_ms)
SELECT topic, partition, member, count(*) AS records, count(holder) AS overlapping,
       concat(member, ' delivered ', count(*), ' records outside its ownership, first offset ', min_by(offset, at_ms),
              ' at ', date_format(timestamp_millis(min(at_ms)), 'HH:mm:ss.SSS'), ' UTC',
              CASE WHEN count(holder) > 0 THEN concat(', ', count(holder), ' of them while ', max(holder), ' owned it')
                   ELSE ' while nobody owned it' END) AS reason
FROM elsewhere
GROUP BY topic, partition, member
ORDER BY topic, partition, member
