-- Records of __consumer_offsets as columns (group-coordinator.md §1.9), for what brokers write all day: keys of known types
-- with group names of ASCII, tombstones and commits. `sure` holds where every byte of key and value is accounted for; the
-- other rows belong to the decoder in Python. Nothing here can fail: a cut beyond the end gives a number that the lengths disown.
-- Parameters: partitions (the count that groups are placed by, or null), names of the types, byte_of (crc32 of one byte, its
-- highest eight bits → the byte). To be analysed with ANSI arithmetic off: undoing a hash needs products that wrap.
WITH heads AS (
  SELECT partition AS src_partition, offset AS src_offset, timestamp_ms AS record_ts, key, value,
         get(:byte_of, CAST(shiftright(crc32(substring(key, 2, 1)), 24) AS INT)) AS type,
         get(:byte_of, CAST(shiftright(crc32(substring(key, 4, 1)), 24) AS INT)) AS group_length,
         get(:byte_of, CAST(shiftright(crc32(substring(value, 2, 1)), 24) AS INT)) AS version
  FROM {records}),
shapes AS (
  SELECT *, type < 2 AS commits, type IN (5, 7, 8, 10, 13, 14, 16, 19, 21, 22) AS two_names, substring(key, 5, group_length) AS group_bytes,
         get(:byte_of, CAST(shiftright(crc32(substring(key, 6 + group_length, 1)), 24) AS INT)) AS second_length,
         get(:byte_of, CAST(shiftright(crc32(substring(value, if(version < 3, 11, 15), 1)), 24) AS INT)) AS high,
         get(:byte_of, CAST(shiftright(crc32(substring(value, if(version < 3, 12, 16), 1)), 24) AS INT)) AS low
  FROM heads),
notes AS (
  SELECT *, CASE WHEN commits OR two_names THEN substring(key, 7 + group_length, second_length) END AS second_bytes,
         CASE WHEN version < 4 THEN shiftleft(high, 8) + low WHEN high < 128 THEN high - 1 ELSE (high & 127) + shiftleft(low, 7) - 1 END AS note_length,
         CASE WHEN version < 3 THEN 13 WHEN version = 4 AND high < 128 THEN 16 ELSE 17 END AS note_at
  FROM shapes),
times AS (
  SELECT *, note_at + note_length AS time_at, substring(value, note_at, note_length) AS note_bytes,
         substring(value, note_at + note_length + 8) AS tail
  FROM notes),
windows AS (
  SELECT src_partition, src_offset, record_ts, key, value, type, commits, two_names, group_bytes, second_bytes, version, note_bytes, tail,
         -- One byte says how long each name is (a topic's name has 249 at most): the other length byte is zero.
         type < 24 AND substring(key, 1, 1) = X'00' AND substring(key, 3, 1) = X'00'
           AND CASE WHEN commits THEN length(key) = 10 + group_length + second_length AND substring(key, 5 + group_length, 1) = X'00'
                    WHEN two_names THEN length(key) = 6 + group_length + second_length AND substring(key, 5 + group_length, 1) = X'00'
                    ELSE length(key) = 4 + group_length END
           AND is_valid_utf8(CAST(group_bytes AS STRING)) AND length(CAST(group_bytes AS STRING)) = group_length
           AND is_valid_utf8(CAST(coalesce(second_bytes, X'') AS STRING)) AS key_sure,
         value IS NULL
           OR (commits AND substring(value, 1, 1) = X'00' AND is_valid_utf8(CAST(note_bytes AS STRING)) AND length(note_bytes) = note_length
               AND CASE version WHEN 0 THEN high < 128 AND length(tail) = 0
                                WHEN 1 THEN high < 128 AND length(tail) = 8
                                WHEN 2 THEN high < 128 AND length(tail) = 0
                                WHEN 3 THEN high < 128 AND length(tail) = 0
                                WHEN 4 THEN high > 0 AND (high < 128 OR low BETWEEN 1 AND 127)
                                            AND (tail = X'00' OR (length(tail) = 19 AND startswith(tail, X'010010')))
                                ELSE false END
               AND length(value) = time_at + 7 + length(tail)) AS value_sure,
         -- A number is eight bytes that go through xxhash64, which maps eight bytes one to one: the steps below undo it.
         xxhash64(substring(key, length(key) - 7, 8)) AS at_partition,
         xxhash64(substring(value, 3, 8)) AS at_offset,
         xxhash64(substring(value, 7, 8)) AS at_epoch,
         xxhash64(substring(value, time_at, 8)) AS at_time,
         xxhash64(substring(value, time_at + 8, 8)) AS at_more
  FROM times),
unmixed_1 AS (
  SELECT src_partition, src_offset, record_ts, key, value, type, commits, two_names, group_bytes, second_bytes, version, note_bytes, tail, key_sure, value_sure,
         (at_partition ^ shiftrightunsigned(at_partition, 32)) * (-1591471870154246071L) AS at_partition,
         (at_offset ^ shiftrightunsigned(at_offset, 32)) * (-1591471870154246071L) AS at_offset,
         (at_epoch ^ shiftrightunsigned(at_epoch, 32)) * (-1591471870154246071L) AS at_epoch,
         (at_time ^ shiftrightunsigned(at_time, 32)) * (-1591471870154246071L) AS at_time,
         (at_more ^ shiftrightunsigned(at_more, 32)) * (-1591471870154246071L) AS at_more
  FROM windows),
unmixed_2 AS (
  SELECT src_partition, src_offset, record_ts, key, value, type, commits, two_names, group_bytes, second_bytes, version, note_bytes, tail, key_sure, value_sure,
         (at_partition ^ shiftrightunsigned(at_partition, 29) ^ shiftrightunsigned(at_partition, 58)) * 839798700976720815L AS at_partition,
         (at_offset ^ shiftrightunsigned(at_offset, 29) ^ shiftrightunsigned(at_offset, 58)) * 839798700976720815L AS at_offset,
         (at_epoch ^ shiftrightunsigned(at_epoch, 29) ^ shiftrightunsigned(at_epoch, 58)) * 839798700976720815L AS at_epoch,
         (at_time ^ shiftrightunsigned(at_time, 29) ^ shiftrightunsigned(at_time, 58)) * 839798700976720815L AS at_time,
         (at_more ^ shiftrightunsigned(at_more, 29) ^ shiftrightunsigned(at_more, 58)) * 839798700976720815L AS at_more
  FROM unmixed_1),
unmixed_3 AS (
  SELECT src_partition, src_offset, record_ts, key, value, type, commits, two_names, group_bytes, second_bytes, version, note_bytes, tail, key_sure, value_sure,
         ((at_partition ^ shiftrightunsigned(at_partition, 33)) - (-8796714831421723037L)) * 614540362697595703L AS at_partition,
         ((at_offset ^ shiftrightunsigned(at_offset, 33)) - (-8796714831421723037L)) * 614540362697595703L AS at_offset,
         ((at_epoch ^ shiftrightunsigned(at_epoch, 33)) - (-8796714831421723037L)) * 614540362697595703L AS at_epoch,
         ((at_time ^ shiftrightunsigned(at_time, 33)) - (-8796714831421723037L)) * 614540362697595703L AS at_time,
         ((at_more ^ shiftrightunsigned(at_more, 33)) - (-8796714831421723037L)) * 614540362697595703L AS at_more
  FROM unmixed_2),
unrolled AS (
  SELECT src_partition, src_offset, record_ts, key, value, type, commits, two_names, group_bytes, second_bytes, version, note_bytes, tail, key_sure, value_sure,
         ((shiftrightunsigned(at_partition, 27) | shiftleft(at_partition, 37)) ^ 2870177450012600311L) * 614540362697595703L AS at_partition,
         ((shiftrightunsigned(at_offset, 27) | shiftleft(at_offset, 37)) ^ 2870177450012600311L) * 614540362697595703L AS at_offset,
         ((shiftrightunsigned(at_epoch, 27) | shiftleft(at_epoch, 37)) ^ 2870177450012600311L) * 614540362697595703L AS at_epoch,
         ((shiftrightunsigned(at_time, 27) | shiftleft(at_time, 37)) ^ 2870177450012600311L) * 614540362697595703L AS at_time,
         ((shiftrightunsigned(at_more, 27) | shiftleft(at_more, 37)) ^ 2870177450012600311L) * 614540362697595703L AS at_more
  FROM unmixed_3),
words AS (
  SELECT src_partition, src_offset, record_ts, key, value, type, commits, two_names, group_bytes, second_bytes, version, note_bytes, tail, key_sure, value_sure,
         (shiftrightunsigned(at_partition, 31) | shiftleft(at_partition, 33)) * 839798700976720815L AS at_partition,
         (shiftrightunsigned(at_offset, 31) | shiftleft(at_offset, 33)) * 839798700976720815L AS at_offset,
         (shiftrightunsigned(at_epoch, 31) | shiftleft(at_epoch, 33)) * 839798700976720815L AS at_epoch,
         (shiftrightunsigned(at_time, 31) | shiftleft(at_time, 33)) * 839798700976720815L AS at_time,
         (shiftrightunsigned(at_more, 31) | shiftleft(at_more, 33)) * 839798700976720815L AS at_more
  FROM unrolled),
numbers_1 AS (
  SELECT src_partition, src_offset, record_ts, key, value, type, commits, two_names, group_bytes, second_bytes, version, note_bytes, tail, key_sure, value_sure,
         shiftleft(at_partition & 71777214294589695L, 8) | (shiftrightunsigned(at_partition, 8) & 71777214294589695L) AS at_partition,
         shiftleft(at_offset & 71777214294589695L, 8) | (shiftrightunsigned(at_offset, 8) & 71777214294589695L) AS at_offset,
         shiftleft(at_epoch & 71777214294589695L, 8) | (shiftrightunsigned(at_epoch, 8) & 71777214294589695L) AS at_epoch,
         shiftleft(at_time & 71777214294589695L, 8) | (shiftrightunsigned(at_time, 8) & 71777214294589695L) AS at_time,
         shiftleft(at_more & 71777214294589695L, 8) | (shiftrightunsigned(at_more, 8) & 71777214294589695L) AS at_more
  FROM words),
numbers_2 AS (
  SELECT src_partition, src_offset, record_ts, key, value, type, commits, two_names, group_bytes, second_bytes, version, note_bytes, tail, key_sure, value_sure,
         shiftleft(at_partition & 281470681808895L, 16) | (shiftrightunsigned(at_partition, 16) & 281470681808895L) AS at_partition,
         shiftleft(at_offset & 281470681808895L, 16) | (shiftrightunsigned(at_offset, 16) & 281470681808895L) AS at_offset,
         shiftleft(at_epoch & 281470681808895L, 16) | (shiftrightunsigned(at_epoch, 16) & 281470681808895L) AS at_epoch,
         shiftleft(at_time & 281470681808895L, 16) | (shiftrightunsigned(at_time, 16) & 281470681808895L) AS at_time,
         shiftleft(at_more & 281470681808895L, 16) | (shiftrightunsigned(at_more, 16) & 281470681808895L) AS at_more
  FROM numbers_1),
named AS (
  SELECT *, key_sure AND value_sure AND spark_partition_id() >= 0 AS sure,  -- not deterministic: keeps filters above all this
         CAST(group_bytes AS STRING) AS group_id, CAST(second_bytes AS STRING) AS second_name, value IS NOT NULL AS live,
         java_hash(CAST(group_bytes AS STRING)) AS hash
  FROM numbers_2),
placed AS (
  SELECT *, if(hash = -2147483648, 0, abs(hash)) % :partitions AS home FROM named)
SELECT coalesce(sure, false) AS sure, src_partition, src_offset, record_ts, type AS record_type,
       get(:names, type) AS type_name, type AS key_version, group_id, false AS group_guessed,
       if(two_names AND type <> 16, second_name, NULL) AS member_id,
       if(commits, second_name, NULL) AS topic,
       if(commits, CAST(shiftright(at_partition, 32) AS INT), NULL) AS partition,
       NOT live AS is_tombstone,
       if(live, version, NULL) AS value_version,
       if(live, 'current', '') AS layout,
       if(live, shiftleft(at_offset, 32) | shiftrightunsigned(at_offset, 32), NULL) AS committed_offset,
       if(live AND version >= 3, CAST(shiftright(at_epoch, 32) AS INT), NULL) AS leader_epoch,
       if(live, CAST(note_bytes AS STRING), NULL) AS metadata,
       if(live, shiftleft(at_time, 32) | shiftrightunsigned(at_time, 32), NULL) AS commit_timestamp_ms,
       if(live AND version = 1, shiftleft(at_more, 32) | shiftrightunsigned(at_more, 32), NULL) AS expire_timestamp_ms,
       if(live AND length(tail) = 19, translate(substring(base64(substring(tail, 4)), 1, 22), '+/', '-_'), NULL) AS topic_id,
       CAST(NULL AS STRING) AS decoded, CAST(map() AS MAP<STRING, STRING>) AS unknown_tags,
       key AS raw_key, value AS raw_value, 'ok' AS decode_status, '' AS problem,
       CAST(home AS INT) AS expected_partition, CAST(home AS INT) <> src_partition AS is_foreign
FROM placed
