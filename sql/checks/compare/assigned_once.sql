-- No partition is assigned to two members of one group in the later snapshot.
SELECT `group`,
       topic,
       partition,
       concat('assigned to ', count(*), ' members at once: ',
              array_join(sort_array(collect_list(member_id)), ' and ')) AS reason
FROM after_assignments
GROUP BY `group`, topic, partition
HAVING count(*) > 1
ORDER BY `group`, topic, partition
