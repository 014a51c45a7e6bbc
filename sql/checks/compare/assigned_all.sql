-- Every partition of the topics that a group subscribes is assigned in the later snapshot.
SELECT s.`group`,
       l.topic,
       l.partition,
       'assigned to no member' AS reason
FROM (SELECT DISTINCT `group`, topic FROM after_subscriptions) AS s
JOIN after_log_ends AS l ON l.topic = s.topic
LEFT ANTI JOIN after_assignments AS a
  ON a.`group` = s.`group` AND a.topic = l.topic AND a.partition = l.partition
ORDER BY s.`group`, l.topic, l.partition
