-- A field of a group (:field, in words :title) is the same in both snapshots.
SELECT `group`,
       CAST(NULL AS STRING) AS topic,
       CAST(NULL AS INT)    AS partition,
       concat(:title, ' was ', coalesce(CAST(was AS STRING), 'unknown'), ' and is ',
              coalesce(CAST(is_now AS STRING), 'unknown')) AS reason
FROM (SELECT `group`, IDENTIFIER('before_' || :field) AS was, IDENTIFIER('after_' || :field) AS is_now
      FROM paired_groups WHERE in_before AND in_after)
WHERE was IS DISTINCT FROM is_now
ORDER BY `group`
