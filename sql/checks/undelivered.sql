-- Offsets that advanced beyond the last record delivered, with the range that is in doubt: [from_offset, is_now). What
-- was deleted before the earlier snapshot is in no doubt.
SELECT *
FROM (SELECT a.topic, a.partition, a.store, b.offset AS was, a.offset AS is_now, d.last_delivered,
             greatest(b.offset, coalesce(d.last_delivered + 1, 0), coalesce(l.log_start, 0)) AS from_offset
      FROM after_offsets AS a
      JOIN before_offsets AS b ON b.topic = a.topic AND b.partition = a.partition AND b.store = a.store
      LEFT JOIN after_ledger AS d ON d.topic = a.topic AND d.partition = a.partition
      LEFT JOIN before_log_ends AS l ON l.topic = a.topic AND l.partition = a.partition
      LEFT ANTI JOIN leftovers AS u ON u.topic = a.topic AND u.partition = a.partition
      WHERE (SELECT count(*) FROM after_ledger) > 0)
WHERE is_now > from_offset
