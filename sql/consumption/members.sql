-- What each member delivered, and by how much its latest stamp came after its ownership had ended.
SELECT member, kind, count(*) AS deliveries, count(DISTINCT topic, partition) AS partitions,
       min(at_ms) AS first_ms, max(at_ms) AS last_ms, coalesce(max(late_ms), 0) AS latest_stamp_ms
FROM located
GROUP BY member, kind
ORDER BY first_ms, member
