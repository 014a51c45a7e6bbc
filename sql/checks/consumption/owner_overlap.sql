-- Owner intervals of one partition never overlap, by zxid.
SELECT topic, partition,
       concat(member, ' owned it from zxid ', start_zxid, ' to ', coalesce(CAST(end_zxid AS STRING), 'the end'),
              ' and ', next_member, ' from zxid ', next_start) AS reason
FROM (
  SELECT topic, partition, member, start_zxid, end_zxid,
         lead(member) OVER (PARTITION BY topic, partition ORDER BY start_zxid) AS next_member,
         lead(start_zxid) OVER (PARTITION BY topic, partition ORDER BY start_zxid) AS next_start
  FROM intervals)
WHERE next_start IS NOT NULL AND (end_zxid IS NULL OR next_start < end_zxid)
ORDER BY topic, partition
