-- Every tenure beside the one before it: who gave, who took, how long nobody had it, and what a taker may deliver again.
-- committed: the offset in force when the partition was taken. It is the last znode write before the taker's owner
-- node; an old member reads offsets before it creates its node, hence :tolerance_ms earlier for that kind. A plain
-- consumer commits to Kafka only: what a plain giver had begun with is then the safe lower bound.
-- reached: the last record any former tenure delivered.
WITH following AS (
  SELECT *,
         row_number() OVER (PARTITION BY topic, partition ORDER BY start_ms, zxid)       AS number,
         lag(member) OVER (PARTITION BY topic, partition ORDER BY start_ms, zxid)        AS giver,
         lag(kind) OVER (PARTITION BY topic, partition ORDER BY start_ms, zxid)          AS giver_kind,
         lag(end_ms) OVER (PARTITION BY topic, partition ORDER BY start_ms, zxid)        AS released_ms,
         lag(ended) OVER (PARTITION BY topic, partition ORDER BY start_ms, zxid)         AS released_by,
         lag(first_offset) OVER (PARTITION BY topic, partition ORDER BY start_ms, zxid)  AS giver_first,
         max(last_offset) OVER (PARTITION BY topic, partition ORDER BY start_ms, zxid
                                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)        AS reached,
         last_value(CASE WHEN records > 0 THEN member END, true)
           OVER (PARTITION BY topic, partition ORDER BY start_ms, zxid
                 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)                       AS last_deliverer
  FROM tenures),
committed AS (
  SELECT f.topic, f.partition, f.number, max_by(o.offset, o.zxid) AS offset
  FROM following AS f
  JOIN offset_writes AS o
    ON  o.topic = f.topic AND o.partition = f.partition
    AND CASE WHEN f.kind = 'old' THEN o.at_ms <= f.start_ms - :tolerance_ms
             WHEN f.zxid IS NULL THEN o.at_ms <= f.start_ms
             ELSE o.zxid < f.zxid END
  GROUP BY f.topic, f.partition, f.number)
SELECT f.topic, f.partition, f.number, f.member, f.kind, f.known_by, f.zxid, f.start_ms, f.end_ms, f.ended, f.records,
       f.first_offset, f.last_offset, f.giver, f.giver_kind, f.released_ms, f.released_by, f.last_deliverer, f.reached,
       CASE WHEN f.giver_kind = 'plain' THEN greatest(coalesce(c.offset, 0), f.giver_first)
            ELSE coalesce(c.offset, 0) END AS committed,
       CASE WHEN f.giver IS NULL THEN NULL ELSE greatest(0, f.start_ms - f.released_ms) END AS unowned_ms
FROM following AS f
LEFT JOIN committed AS c ON c.topic = f.topic AND c.partition = f.partition AND c.number = f.number
