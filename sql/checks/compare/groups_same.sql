-- Every group is in both snapshots.
SELECT `group`,
       CAST(NULL AS STRING) AS topic,
       CAST(NULL AS INT)    AS partition,
       CASE WHEN in_after IS NULL THEN 'the group is gone' ELSE 'the group was not there before' END AS reason
FROM paired_groups
WHERE in_before IS NULL OR in_after IS NULL
ORDER BY `group`
