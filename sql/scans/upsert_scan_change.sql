INSERT INTO scan_change (ensemble, number, group_id, aspect, was, became)
VALUES (:ensemble, :number, :group, :aspect, :before, :after)
ON CONFLICT (ensemble, number, group_id, aspect) DO UPDATE SET was = excluded.was, became = excluded.became;
