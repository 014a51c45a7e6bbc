-- Every migration-aware member publishes the mode in effect as the one it acts on.
SELECT CAST(NULL AS STRING) AS topic, CAST(NULL AS INT) AS partition,
       concat('member ', m.member_id, ' acts in ', coalesce(m.mode, 'no published'), ' mode where ',
              g.effective_mode, ' is in effect') AS reason
FROM after_members AS m CROSS JOIN after_group AS g
WHERE m.kind = 'aware' AND m.mode IS DISTINCT FROM g.effective_mode
ORDER BY m.member_id
