-- Every delivery beside the owner interval of its member that it lies in; interval columns are null when there is none.
-- Only members recorded behind a pipe (kind old) may be stamped up to :tolerance_ms after their interval ended.
SELECT topic, partition, offset, member, kind, at_ms, start_zxid, late_ms
FROM (
  SELECT d.*, i.start_zxid,
         greatest(0, d.at_ms - i.end_ms) AS late_ms,
         row_number() OVER (PARTITION BY d.delivery
                            ORDER BY greatest(0, d.at_ms - i.end_ms), i.start_zxid DESC) AS choice
  FROM deliveries AS d
  LEFT JOIN intervals AS i
    ON  i.topic = d.topic AND i.partition = d.partition AND i.member = d.member
    AND d.at_ms >= i.start_ms
    AND d.at_ms <= i.end_ms + CASE WHEN d.kind = 'old' THEN :tolerance_ms ELSE 0 END)
WHERE choice = 1
