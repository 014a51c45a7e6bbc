-- A member that is new in this snapshot (the canary) owns its even share of each topic: between the floor and the
-- ceiling of partitions * its streams / all streams, summed over its topics.
WITH partitions AS (SELECT topic, count(DISTINCT partition) AS partitions FROM after_log_ends GROUP BY topic),
     streams AS (SELECT topic, sum(streams) AS streams FROM after_subscriptions GROUP BY topic),
     fair AS (SELECT s.member_id,
                     sum(p.partitions)                                 AS partitions,
                     sum(floor(p.partitions * s.streams / t.streams))  AS least,
                     sum(ceil(p.partitions * s.streams / t.streams))   AS most
              FROM after_subscriptions AS s
              JOIN streams AS t ON t.topic = s.topic
              JOIN partitions AS p ON p.topic = s.topic
              LEFT ANTI JOIN before_members AS b ON b.member_id = s.member_id
              GROUP BY s.member_id),
     held AS (SELECT member_id, count(*) AS owned FROM after_owners GROUP BY member_id)
SELECT CAST(NULL AS STRING) AS topic,
       CAST(NULL AS INT)    AS partition,
       concat(f.member_id, ' owns ', coalesce(h.owned, 0), ' of ', f.partitions, ' partitions, its even share is ',
              CASE WHEN f.least = f.most THEN CAST(f.least AS STRING) ELSE concat(f.least, ' to ', f.most) END) AS reason
FROM fair AS f
LEFT JOIN held AS h ON h.member_id = f.member_id
WHERE coalesce(h.owned, 0) NOT BETWEEN f.least AND f.most
ORDER BY f.member_id
