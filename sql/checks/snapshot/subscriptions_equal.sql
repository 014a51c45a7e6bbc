-- The group subscribes to the same topics, with the same number of streams; which member does is not compared.
-- Streams are a notion of ZooKeeper members only: with a Kafka consumer on either side only topics count.
WITH plain AS (SELECT count(*) AS members FROM (
                 SELECT kind FROM before_members WHERE kind IN ('plain', 'native')
                 UNION ALL SELECT kind FROM after_members WHERE kind IN ('plain', 'native'))),
     b AS (SELECT topic, sum(streams) AS streams FROM before_subscriptions GROUP BY topic),
     a AS (SELECT topic, sum(streams) AS streams FROM after_subscriptions GROUP BY topic)
SELECT coalesce(b.topic, a.topic) AS topic,
       CAST(NULL AS INT)          AS partition,
       concat(coalesce(b.streams, 0), ' streams subscribed before, ', coalesce(a.streams, 0), ' after') AS reason
FROM b FULL OUTER JOIN a ON a.topic = b.topic
CROSS JOIN plain AS p
WHERE (a.streams IS NULL OR b.streams IS NULL OR (p.members = 0 AND a.streams <> b.streams))
ORDER BY topic
