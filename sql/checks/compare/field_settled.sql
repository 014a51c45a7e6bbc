-- A field of a group (:field, in words :title) is the same, where a state that passes by itself counts as Stable.
SELECT `group`,
       CAST(NULL AS STRING) AS topic,
       CAST(NULL AS INT)    AS partition,
       concat(:title, ' was ', was, ' and is ', is_now) AS reason
FROM (SELECT `group`, IDENTIFIER('before_' || :field) AS was, IDENTIFIER('after_' || :field) AS is_now
      FROM paired_groups WHERE in_before AND in_after)
WHERE CASE WHEN was IN ('PreparingRebalance', 'CompletingRebalance', 'Assigning', 'Reconciling')
           THEN 'Stable' ELSE was END
      IS DISTINCT FROM
      CASE WHEN is_now IN ('PreparingRebalance', 'CompletingRebalance', 'Assigning', 'Reconciling')
           THEN 'Stable' ELSE is_now END
ORDER BY `group`
