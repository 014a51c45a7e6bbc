-- A field of a group (:field, in words :title) that was :old is :new; any other value stays.
SELECT `group`,
       CAST(NULL AS STRING) AS topic,
       CAST(NULL AS INT)    AS partition,
       concat(:title, ' was ', was, ' and is ', is_now, ' where ',
              CASE WHEN was = :old THEN :new ELSE was END, ' was expected') AS reason
FROM (SELECT `group`, IDENTIFIER('before_' || :field) AS was, IDENTIFIER('after_' || :field) AS is_now
      FROM paired_groups WHERE in_before AND in_after)
WHERE is_now IS DISTINCT FROM CASE WHEN was = :old THEN :new ELSE was END
ORDER BY `group`
