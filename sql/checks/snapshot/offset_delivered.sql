-- An advanced offset was really delivered: after <= last delivered + 1, wherever there is a ledger.
SELECT a.topic,
       a.partition,
       concat('the ', a.store, ' offset advanced from ', b.offset, ' to ', a.offset,
              CASE WHEN d.topic IS NULL THEN ' but no member delivered it'
                   ELSE concat(' but the last record delivered is ', d.last_delivered) END) AS reason
FROM after_offsets AS a
JOIN before_offsets AS b ON b.topic = a.topic AND b.partition = a.partition AND b.store = a.store
LEFT JOIN after_ledger AS d ON d.topic = a.topic AND d.partition = a.partition
WHERE a.offset > b.offset
  AND a.offset > coalesce(d.last_delivered, -1) + 1
  AND (SELECT count(*) FROM after_ledger) > 0
ORDER BY a.topic, a.partition, a.store
