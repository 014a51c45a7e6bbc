INSERT INTO scan_state (ensemble, group_id, number, state)
VALUES (:ensemble, :group, :number, :state)
ON CONFLICT (ensemble, group_id) DO UPDATE SET number = excluded.number, state = excluded.state;
