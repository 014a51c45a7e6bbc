-- Ranges delivered again that no hand-over explains.
SELECT topic, partition, first_ms,
       concat('offsets ', from_offset, ' to ', to_offset, ' were delivered again by ', member, ': ', objection) AS reason
FROM duplicates
WHERE objection IS NOT NULL AND first_ms BETWEEN :from_ms AND :to_ms
ORDER BY topic, partition, from_offset
