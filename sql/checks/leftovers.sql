-- Partitions of the two snapshots that no member reads in either: nobody subscribes to the topic, it is gone, or it
-- has fewer partitions. A snapshot with members has the log ends of what they read; one without has those of all
-- that is committed. A topic that somebody names and the brokers do not know is none of these.
WITH peopled AS (
  SELECT (SELECT count(*) FROM before_members) > 0 AS was, (SELECT count(*) FROM after_members) > 0 AS is_now),
read AS (
  SELECT l.topic, l.partition FROM before_log_ends AS l CROSS JOIN peopled AS p WHERE p.was OR NOT p.is_now
  UNION SELECT l.topic, l.partition FROM after_log_ends AS l CROSS JOIN peopled AS p WHERE p.is_now OR NOT p.was
  UNION SELECT topic, partition FROM before_owners
  UNION SELECT topic, partition FROM after_owners),
named AS (
  SELECT topic FROM before_subscriptions UNION SELECT topic FROM after_subscriptions),
unknown AS (
  SELECT n.topic FROM named AS n LEFT ANTI JOIN read AS r ON r.topic = n.topic),
there AS (
  SELECT topic, partition FROM before_offsets UNION SELECT topic, partition FROM after_offsets
  UNION SELECT topic, partition FROM before_log_ends UNION SELECT topic, partition FROM after_log_ends)
SELECT t.topic, t.partition
FROM there AS t
LEFT ANTI JOIN read AS r ON r.topic = t.topic AND r.partition = t.partition
LEFT ANTI JOIN unknown AS u ON u.topic = t.topic
