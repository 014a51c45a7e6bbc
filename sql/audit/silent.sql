-- Partitions of the log of whose live commits (:enough or more) their coordinator answers none although it was asked in full.
SELECT c.src_partition
FROM {commits} AS c
LEFT SEMI JOIN {asked} AS g ON g.group_id = c.group_id
LEFT JOIN {answers} AS a ON a.group_id = c.group_id AND a.topic = c.topic AND a.partition = c.partition
WHERE NOT c.is_foreign AND NOT c.is_tombstone
GROUP BY c.src_partition
HAVING count(*) >= :enough AND count(a.group_id) = 0
