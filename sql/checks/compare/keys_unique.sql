-- No (group, topic, partition) is twice in a snapshot (:rows is the view of its commits).
SELECT `group`, topic, partition, concat('committed ', count(*), ' times in one snapshot') AS reason
FROM IDENTIFIER(:rows)
GROUP BY `group`, topic, partition
HAVING count(*) > 1
