-- Plain consumers have no owner node; they overlap when one delivers between two deliveries of another's tenure, or
-- when one goes on where it stopped itself although another delivered that partition in between.
WITH resumed AS (
  SELECT topic, partition, member, start_ms, opening_offset,
         lag(last_offset) OVER (PARTITION BY topic, partition, member ORDER BY run) AS own_last,
         lag(end_ms) OVER (PARTITION BY topic, partition, member ORDER BY run) AS own_end_ms
  FROM runs),
between_runs AS (
  SELECT r.topic, r.partition, r.member, r.opening_offset, l.member AS other, count(*) AS records, max(l.offset) AS other_last
  FROM resumed AS r
  JOIN located AS l
    ON l.topic = r.topic AND l.partition = r.partition AND l.member <> r.member
    AND l.at_ms > r.own_end_ms AND l.at_ms < r.start_ms
  WHERE r.opening_offset = r.own_last + 1
  GROUP BY r.topic, r.partition, r.member, r.opening_offset, l.member),
inside AS (
  SELECT l.topic, l.partition, l.member, t.member AS other, count(*) AS records, min(l.offset) AS first_offset
  FROM located AS l
  JOIN tenures AS t
    ON t.topic = l.topic AND t.partition = l.partition AND t.member <> l.member AND t.known_by = 'owner node'
    AND l.at_ms > t.seen_from_ms AND l.at_ms < t.seen_to_ms
  WHERE l.kind = 'plain'
  GROUP BY l.topic, l.partition, l.member, t.member)
SELECT topic, partition, concat(member, ' went on at offset ', opening_offset, ' although ', other,
                                ' had delivered up to ', other_last, ' in between') AS reason
FROM between_runs WHERE other_last >= opening_offset
UNION ALL
SELECT topic, partition, concat(member, ' delivered ', records, ' records from offset ', first_offset, ' while ',
                                other, ' owned it and delivered too')
FROM inside
ORDER BY topic, partition
