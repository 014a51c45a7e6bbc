-- Per partition of the log and key the highest offset (group-coordinator.md §1.7): that record wins, whatever timestamps say. Types 0 and 1 are the
-- same commit. Whole numbers only, so that Spark aggregates by hash; the records themselves are fetched by their offsets.
SELECT partition, max(offset) AS offset, count(*) AS records
FROM {records}
GROUP BY partition, if(startswith(key, X'0000'), concat(X'0001', substring(key, 3)), key)
