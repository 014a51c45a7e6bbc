-- No key of any table of the snapshot occurs twice.
SELECT 'group' AS topic, CAST(NULL AS INT) AS partition, concat('group ', `group`, ' is in table group ', count(*), ' times') AS reason
FROM after_group GROUP BY `group` HAVING count(*) > 1
UNION ALL
SELECT 'members', NULL, concat('member ', member_id, ' is in table members ', count(*), ' times')
FROM after_members GROUP BY member_id HAVING count(*) > 1
UNION ALL
SELECT topic, NULL, concat('member ', member_id, ' is in table subscriptions ', count(*), ' times')
FROM after_subscriptions GROUP BY member_id, topic HAVING count(*) > 1
UNION ALL
SELECT topic, partition, concat('is in table owners ', count(*), ' times')
FROM after_owners GROUP BY topic, partition HAVING count(*) > 1
UNION ALL
SELECT topic, partition, concat('its ', store, ' offset is in table offsets ', count(*), ' times')
FROM after_offsets GROUP BY topic, partition, store HAVING count(*) > 1
UNION ALL
SELECT topic, partition, concat('is in table log_ends ', count(*), ' times')
FROM after_log_ends GROUP BY topic, partition HAVING count(*) > 1
UNION ALL
SELECT topic, partition, concat('is in table ledger ', count(*), ' times')
FROM after_ledger GROUP BY topic, partition HAVING count(*) > 1
