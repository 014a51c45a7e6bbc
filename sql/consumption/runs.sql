-- Plain consumers have no owner node: a run is a stretch of a partition's deliveries, in order of time, by one of them.
WITH ordered AS (
  SELECT topic, partition, offset, member, kind, at_ms,
         CASE WHEN member <=> lag(member) OVER (PARTITION BY topic, partition ORDER BY at_ms, offset) THEN 0 ELSE 1 END AS begins
  FROM located),
numbered AS (
  SELECT *, sum(begins) OVER (PARTITION BY topic, partition ORDER BY at_ms, offset
                              ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS run
  FROM ordered)
SELECT topic, partition, member, run, min(at_ms) AS start_ms, max(at_ms) AS end_ms,
       min(offset) AS first_offset, max(offset) AS last_offset, min_by(offset, at_ms) AS opening_offset, count(*) AS records
FROM numbered
WHERE kind = 'plain'
GROUP BY topic, partition, member, run
