-- No partition's log end went back: a truncated log makes every offset comparison meaningless.
SELECT a.topic,
       a.partition,
       concat('the log end went back from ', b.log_end, ' to ', a.log_end) AS reason
FROM after_log_ends AS a
JOIN before_log_ends AS b ON b.topic = a.topic AND b.partition = a.partition
LEFT ANTI JOIN leftovers AS u ON u.topic = a.topic AND u.partition = a.partition
WHERE a.log_end < b.log_end
ORDER BY a.topic, a.partition
