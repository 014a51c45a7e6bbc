-- Every partition has exactly one owner, and nothing else is owned.
WITH partitions AS (SELECT DISTINCT topic, partition FROM after_log_ends),
     held AS (SELECT topic, partition, count(*) AS owners,
                     array_join(sort_array(collect_list(coalesce(thread_id, member_id))), ' and ') AS names
              FROM after_owners
              GROUP BY topic, partition)
SELECT coalesce(p.topic, h.topic)         AS topic,
       coalesce(p.partition, h.partition) AS partition,
       CASE WHEN h.topic IS NULL THEN 'no member owns it'
            WHEN p.topic IS NULL THEN concat('owned by ', h.names, ' but unknown to the brokers')
            ELSE concat(h.owners, ' owners at once: ', h.names) END AS reason
FROM partitions AS p
FULL OUTER JOIN held AS h ON h.topic = p.topic AND h.partition = p.partition
WHERE h.topic IS NULL OR p.topic IS NULL OR h.owners <> 1
ORDER BY topic, partition
