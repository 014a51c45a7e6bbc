-- Every owner is a member that is there at the same moment.
SELECT o.topic,
       o.partition,
       concat('owned by ', o.member_id, ', which is not a member of the group') AS reason
FROM after_owners AS o
LEFT ANTI JOIN after_members AS m ON m.member_id = o.member_id
ORDER BY o.topic, o.partition
