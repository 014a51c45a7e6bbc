-- Every difference between the tables of two snapshots of a group, in one class; the ledger is a witness, not a subject.
-- subject, before and after are for people; of an offset, reason says it as the end of a sentence.
WITH offsets AS (
  SELECT coalesce(b.topic, a.topic) AS topic, coalesce(b.partition, a.partition) AS partition, coalesce(b.store, a.store) AS store,
         b.offset AS was, a.offset AS is_now, b.metadata AS before_metadata, a.metadata AS after_metadata,
         CASE WHEN a.topic IS NULL THEN 'lost'
              WHEN b.topic IS NULL THEN 'extra'
              WHEN a.offset < b.offset THEN 'regressed'
              WHEN a.offset > b.offset THEN 'advanced'
              WHEN a.metadata <> b.metadata THEN 'metadata_only' END AS class
  FROM before_offsets AS b
  FULL OUTER JOIN after_offsets AS a ON a.topic = b.topic AND a.partition = b.partition AND a.store = b.store),
told AS (
  SELECT *,
         CASE WHEN class = 'metadata_only' THEN concat(was, ' ', to_json(struct(before_metadata))) ELSE CAST(was AS STRING) END AS before,
         CASE WHEN class = 'metadata_only' THEN concat(is_now, ' ', to_json(struct(after_metadata))) ELSE CAST(is_now AS STRING) END AS after
  FROM offsets),
log_ends AS (
  SELECT coalesce(b.topic, a.topic) AS topic, coalesce(b.partition, a.partition) AS partition,
         CASE WHEN a.topic IS NULL THEN 'lost'
              WHEN b.topic IS NULL THEN 'extra'
              WHEN a.log_end < b.log_end THEN 'regressed' END AS class,
         concat('[', b.log_start, ', ', b.log_end, ']') AS before,
         concat('[', a.log_start, ', ', a.log_end, ']') AS after
  FROM before_log_ends AS b
  FULL OUTER JOIN after_log_ends AS a ON a.topic = b.topic AND a.partition = b.partition),
members AS (
  SELECT coalesce(b.member_id, a.member_id) AS member_id, b.kind AS before, a.kind AS after,
         CASE WHEN a.member_id IS NULL THEN 'lost'
              WHEN b.member_id IS NULL THEN 'extra'
              WHEN a.kind <> b.kind THEN 'metadata_only' END AS class
  FROM before_members AS b
  FULL OUTER JOIN after_members AS a ON a.member_id = b.member_id),
subscriptions AS (
  SELECT coalesce(b.topic, a.topic) AS topic, concat(b.streams, ' streams') AS before, concat(a.streams, ' streams') AS after,
         CASE WHEN a.topic IS NULL THEN 'lost'
              WHEN b.topic IS NULL THEN 'extra'
              WHEN a.streams <> b.streams THEN 'metadata_only' END AS class
  FROM (SELECT topic, sum(streams) AS streams FROM before_subscriptions GROUP BY topic) AS b
  FULL OUTER JOIN (SELECT topic, sum(streams) AS streams FROM after_subscriptions GROUP BY topic) AS a ON a.topic = b.topic),
owners AS (
  SELECT coalesce(b.topic, a.topic) AS topic, coalesce(b.partition, a.partition) AS partition, b.owner AS before, a.owner AS after,
         CASE WHEN a.topic IS NULL THEN 'lost'
              WHEN b.topic IS NULL THEN 'extra'
              WHEN a.owner <> b.owner THEN 'metadata_only' END AS class
  FROM (SELECT topic, partition, array_join(sort_array(collect_list(coalesce(thread_id, member_id))), ' and ') AS owner
        FROM before_owners GROUP BY topic, partition) AS b
  FULL OUTER JOIN
       (SELECT topic, partition, array_join(sort_array(collect_list(coalesce(thread_id, member_id))), ' and ') AS owner
        FROM after_owners GROUP BY topic, partition) AS a ON a.topic = b.topic AND a.partition = b.partition),
groups AS (
  SELECT coalesce(b.`group`, a.`group`) AS `group`,
         concat(b.effective_mode, ' (node: ', coalesce(b.mode_text, 'absent'), ')') AS before,
         concat(a.effective_mode, ' (node: ', coalesce(a.mode_text, 'absent'), ')') AS after,
         CASE WHEN a.`group` IS NULL THEN 'lost'
              WHEN b.`group` IS NULL THEN 'extra'
              WHEN a.effective_mode <> b.effective_mode OR a.mode_text IS DISTINCT FROM b.mode_text THEN 'metadata_only' END AS class
  FROM before_group AS b
  FULL OUTER JOIN after_group AS a ON a.`group` = b.`group`)
SELECT 'offsets' AS `table`, class, topic, partition, store, concat(topic, '-', partition, ' (', store, ')') AS subject, before, after,
       CASE class
         WHEN 'lost' THEN concat('its ', store, ' offset ', before, ' is gone')
         WHEN 'extra' THEN concat('it has a new ', store, ' offset ', after)
         WHEN 'regressed' THEN concat('its ', store, ' offset went back from ', before, ' to ', after)
         WHEN 'advanced' THEN concat('its ', store, ' offset advanced from ', before, ' to ', after)
         ELSE concat('metadata of its ', store, ' offset went from ', before, ' to ', after) END AS reason
FROM told WHERE class IS NOT NULL
UNION ALL
SELECT 'log_ends', class, topic, partition, NULL, concat(topic, '-', partition), before, after, NULL
FROM log_ends WHERE class IS NOT NULL
UNION ALL
SELECT 'members', class, NULL, NULL, NULL, concat('member ', member_id), before, after, NULL
FROM members WHERE class IS NOT NULL
UNION ALL
SELECT 'subscriptions', class, topic, NULL, NULL, concat('topic ', topic), before, after, NULL
FROM subscriptions WHERE class IS NOT NULL
UNION ALL
SELECT 'owners', class, topic, partition, NULL, concat('owner of ', topic, '-', partition), before, after, NULL
FROM owners WHERE class IS NOT NULL
UNION ALL
SELECT 'group', class, NULL, NULL, NULL, concat('mode of group ', `group`), before, after, NULL
FROM groups WHERE class IS NOT NULL
