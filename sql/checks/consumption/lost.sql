-- Offsets between the first and the last delivered one that nobody delivered, and offsets committed but never delivered:
-- lost where the log holds a record there, which is asked afterwards. kinds are those of the members beside the gap.
WITH seen AS (
  SELECT topic, partition, offset, min(at_ms) AS at_ms, min_by(kind, at_ms) AS kind FROM deliveries GROUP BY topic, partition, offset),
gaps AS (
  SELECT topic, partition, offset,
         lead(offset) OVER (PARTITION BY topic, partition ORDER BY offset) AS next_offset,
         lead(at_ms) OVER (PARTITION BY topic, partition ORDER BY offset)  AS next_ms,
         array(kind, lead(kind) OVER (PARTITION BY topic, partition ORDER BY offset)) AS kinds
  FROM seen),
reached AS (
  SELECT topic, partition, max(offset) AS last_offset, array(max_by(kind, offset)) AS kinds FROM seen GROUP BY topic, partition),
written AS (
  SELECT topic, partition, min(offset) AS lowest, max(offset) AS highest, max_by(at_ms, offset) AS at_ms
  FROM offset_writes WHERE at_ms BETWEEN :from_ms AND :to_ms GROUP BY topic, partition)
SELECT topic, partition, offset + 1 AS from_offset, next_offset - 1 AS to_offset, next_ms AS at_ms, kinds,
       concat('offsets ', offset + 1, ' to ', next_offset - 1, ' were delivered to nobody') AS reason
FROM gaps
WHERE next_offset > offset + 1 AND next_ms >= :from_ms
UNION ALL
SELECT w.topic, w.partition, coalesce(r.last_offset + 1, w.lowest), w.highest - 1, w.at_ms, r.kinds,
       concat('offsets ', coalesce(r.last_offset + 1, w.lowest), ' to ', w.highest - 1,
              ' were committed and delivered to nobody')
FROM written AS w
LEFT JOIN reached AS r ON r.topic = w.topic AND r.partition = w.partition
WHERE w.highest > coalesce(r.last_offset + 1, w.lowest)
ORDER BY topic, partition, from_offset
