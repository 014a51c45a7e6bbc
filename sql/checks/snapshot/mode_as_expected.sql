-- The mode node holds what this phase writes, and the mode in effect is the one it asks for.
SELECT CAST(NULL AS STRING) AS topic, CAST(NULL AS INT) AS partition,
       concat('the mode node holds ', coalesce(mode_text, 'nothing'), ' where ',
              coalesce(:mode_text, 'nothing'), ' was expected') AS reason
FROM after_group WHERE mode_text IS DISTINCT FROM :mode_text
UNION ALL
SELECT NULL, NULL, concat('the mode in effect is ', effective_mode, ' where ', :effective_mode, ' was expected')
FROM after_group WHERE effective_mode <> :effective_mode
UNION ALL
SELECT NULL, NULL, concat('table group has ', count(*), ' rows where 1 was expected')
FROM after_group HAVING count(*) <> 1
