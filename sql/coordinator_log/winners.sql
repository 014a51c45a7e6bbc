-- The records at the offsets of {newest}, and how many records of the same key each of them won over.
SELECT records.partition, records.offset, records.timestamp_ms, records.key, records.value, newest.records - 1 AS beaten
FROM {records} AS records
JOIN {newest} AS newest ON newest.partition = records.partition AND newest.offset = records.offset
