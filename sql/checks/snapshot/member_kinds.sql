-- Members of each kind: as many as before, less those replaced, plus those that replaced them.
-- :old and :new are kinds (empty when nobody is replaced), :replaced how many changed kind.
WITH kinds AS (SELECT explode(array('old', 'aware', 'plain', 'native')) AS kind),
     expected AS (SELECT k.kind,
                         count(m.member_id)
                           - CASE WHEN k.kind = :old THEN :replaced ELSE 0 END
                           + CASE WHEN k.kind = :new THEN :replaced ELSE 0 END AS members
                  FROM kinds AS k LEFT JOIN before_members AS m ON m.kind = k.kind
                  GROUP BY k.kind),
     found AS (SELECT k.kind, count(m.member_id) AS members,
                      array_join(sort_array(collect_list(m.member_id)), ', ') AS names
               FROM kinds AS k LEFT JOIN after_members AS m ON m.kind = k.kind
               GROUP BY k.kind)
SELECT CAST(NULL AS STRING) AS topic,
       CAST(NULL AS INT)    AS partition,
       concat(f.members, ' members of kind ', f.kind, ' where ', e.members, ' were expected',
              CASE WHEN f.members > 0 THEN concat(' (', f.names, ')') ELSE '' END) AS reason
FROM expected AS e JOIN found AS f ON f.kind = e.kind
WHERE f.members <> e.members
ORDER BY f.kind
