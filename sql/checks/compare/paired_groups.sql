-- One row a group of either snapshot: what its own row says (before_x, after_x), its members and topics as sorted text, and
-- whether it is there (in_before, in_after: true or null).
WITH groups AS (
  SELECT 'before' AS side, * FROM before_groups UNION ALL SELECT 'after', * FROM after_groups),
members AS (
  SELECT side, `group`,
         count(*)                                                  AS member_count,
         array_join(sort_array(collect_list(client_id)), ', ')     AS client_ids,
         array_join(sort_array(collect_set(instance_id)), ', ')    AS instance_ids,
         array_join(sort_array(collect_list(member_id)), ', ')     AS member_ids
  FROM (SELECT 'before' AS side, * FROM before_members UNION ALL SELECT 'after', * FROM after_members)
  GROUP BY side, `group`),
subscriptions AS (
  SELECT side, `group`, array_join(sort_array(collect_set(topic)), ', ') AS subscribed
  FROM (SELECT 'before' AS side, * FROM before_subscriptions UNION ALL SELECT 'after', * FROM after_subscriptions)
  GROUP BY side, `group`),
described AS (
  SELECT g.*,
         coalesce(m.member_count, 0)   AS member_count,
         coalesce(m.client_ids, '')    AS client_ids,
         coalesce(m.instance_ids, '')  AS instance_ids,
         coalesce(m.member_ids, '')    AS member_ids,
         coalesce(s.subscribed, '')    AS subscribed
  FROM groups AS g
  LEFT JOIN members AS m ON m.side = g.side AND m.`group` = g.`group`
  LEFT JOIN subscriptions AS s ON s.side = g.side AND s.`group` = g.`group`)
SELECT coalesce(b.`group`, a.`group`) AS `group`,
       b.side IS NOT NULL OR NULL AS in_before, a.side IS NOT NULL OR NULL AS in_after,
       b.type          AS before_type,          a.type          AS after_type,
       b.state         AS before_state,         a.state         AS after_state,
       b.protocol_type AS before_protocol_type, a.protocol_type AS after_protocol_type,
       b.protocol      AS before_protocol,      a.protocol      AS after_protocol,
       b.generation    AS before_generation,    a.generation    AS after_generation,
       b.member_count  AS before_member_count,  a.member_count  AS after_member_count,
       b.client_ids    AS before_client_ids,    a.client_ids    AS after_client_ids,
       b.instance_ids  AS before_instance_ids,  a.instance_ids  AS after_instance_ids,
       b.member_ids    AS before_member_ids,    a.member_ids    AS after_member_ids,
       b.subscribed    AS before_subscribed,    a.subscribed    AS after_subscribed
FROM (SELECT * FROM described WHERE side = 'before') AS b
FULL OUTER JOIN (SELECT * FROM described WHERE side = 'after') AS a ON a.`group` = b.`group`
