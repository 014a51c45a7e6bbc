-- Advanced offsets of which neither ledgers nor log tell whether a record was passed over.
SELECT d.topic,
       d.partition,
       concat('the ', d.store, ' offset advanced from ', d.was, ' to ', d.is_now, ': not proven, ', g.reason) AS reason
FROM undelivered AS d
JOIN log_answers AS g
  ON g.topic = d.topic AND g.partition = d.partition AND g.from_offset = d.from_offset AND g.to_offset = d.is_now
WHERE g.answer = 'not proven'
ORDER BY d.topic, d.partition, d.store
