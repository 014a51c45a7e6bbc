-- The keys of {keys} with the past of each: `before` the log's position was first taken, and `bracket`, the last record before it and
-- every one since: what a coordinator that follows its log may have answered.
SELECT *, concat(if(size(before) > 0, slice(before, -1, 1), before), filter(lines, x -> x.record_offset >= opened)) AS bracket,
       try_element_at(filter(lines, x -> x.says IS NOT NULL), -1) AS last_live,
       try_element_at(filter(lines, x -> x.record_offset > coalesce(reached, -1)), 1) AS first_beyond
FROM (
  SELECT *, filter(lines, x -> x.record_offset < opened) AS before,
         array_max(transform(filter(lines, x -> x.says IS NULL OR x.says <= coalesce(node_offset, -1)), x -> x.record_offset)) AS reached
  FROM (
    SELECT k.*, coalesce(o.opened, 0) AS opened, coalesce(h.lines, array()) AS lines,
           if(k.answer_offset >= 0, k.answer_offset, NULL) AS answered, if(k.winner_offset >= 0, k.winner_offset, NULL) AS logged,
           k.has_winner AND k.status <> 'ok' AS cannot_be_read
    FROM {keys} AS k
    LEFT JOIN {opened} AS o ON o.partition = k.src_partition
    LEFT JOIN {histories} AS h ON h.group_id = k.group_id AND h.topic = k.topic AND h.partition = k.partition))
