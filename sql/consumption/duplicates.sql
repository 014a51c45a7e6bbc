-- Records delivered more than once, as ranges: consecutive offsets that one tenure delivered again.
-- Order of deliveries is the order of tenures first (a stamp taken behind a pipe may be late), then time.
WITH placed AS (
  SELECT l.topic, l.partition, l.offset, l.member, l.at_ms, h.number
  FROM located AS l
  JOIN hand_overs AS h
    ON  h.topic = l.topic AND h.partition = l.partition
    AND (h.zxid = l.start_zxid
         OR (h.zxid IS NULL AND l.kind = 'plain' AND h.member = l.member AND l.at_ms BETWEEN h.start_ms AND h.end_ms))),
numbered AS (
  SELECT *,
         row_number() OVER (PARTITION BY topic, partition, offset ORDER BY number, at_ms) AS nth,
         row_number() OVER (PARTITION BY topic, partition, offset, number ORDER BY at_ms) AS nth_of_tenure
  FROM placed),
again AS (
  SELECT *, offset - row_number() OVER (PARTITION BY topic, partition, number, nth_of_tenure ORDER BY offset) AS island
  FROM numbered
  WHERE nth > 1),
ranges AS (
  SELECT topic, partition, number, nth_of_tenure, min(offset) AS from_offset, max(offset) AS to_offset,
         count(*) AS records, min(at_ms) AS first_ms
  FROM again
  GROUP BY topic, partition, number, nth_of_tenure, island)
SELECT r.topic, r.partition, r.from_offset, r.to_offset, r.records, r.first_ms, r.number, h.member,
       h.giver, h.last_deliverer, h.committed, h.reached, h.start_ms AS taken_ms, h.released_by,
       CASE WHEN r.nth_of_tenure > 1 THEN 'delivered twice by the same owner'
            WHEN h.giver IS NULL THEN 'there was no hand-over before it'
            WHEN r.from_offset < h.committed THEN concat('it begins before ', h.committed, ', the offset committed at the hand-over')
            WHEN r.to_offset > h.reached THEN concat('it ends after ', h.reached, ', the last record delivered before the hand-over')
       END AS objection
FROM ranges AS r
JOIN hand_overs AS h ON h.topic = r.topic AND h.partition = r.partition AND h.number = r.number
