-- Every group that had committed offsets is there still, and none is new.
SELECT `group`,
       CAST(NULL AS STRING) AS topic,
       CAST(NULL AS INT)    AS partition,
       CASE WHEN in_after IS NULL THEN 'the group is gone' ELSE 'the group was not there before' END AS reason
FROM paired_groups
WHERE in_before IS NULL
   OR (in_after IS NULL AND `group` IN (SELECT `group` FROM before_committed))
ORDER BY `group`
