-- An advanced offset was really delivered: after <= last delivered + 1, wherever there is a ledger. Where it was not,
-- the log was asked (log_answers): what it does not hold is not lost. Without an answer it counts as lost.
SELECT d.topic,
       d.partition,
       concat('the ', d.store, ' offset advanced from ', d.was, ' to ', d.is_now,
              CASE WHEN d.last_delivered IS NULL THEN ' but no member delivered it'
                   ELSE concat(' but the last record delivered is ', d.last_delivered) END,
              CASE WHEN g.answer = 'lost' THEN concat(', and ', g.reason) ELSE '' END) AS reason
FROM undelivered AS d
LEFT JOIN log_answers AS g
  ON g.topic = d.topic AND g.partition = d.partition AND g.from_offset = d.from_offset AND g.to_offset = d.is_now
WHERE coalesce(g.answer, 'lost') = 'lost'
ORDER BY d.topic, d.partition, d.store
