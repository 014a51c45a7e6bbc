INSERT INTO scan_toggle (ensemble, number, group_id, wave, to_mode, state, reason, run, at_ms)
VALUES (:ensemble, :number, :group, :wave, :to, :state, :reason, :run, :at_ms)
ON CONFLICT (ensemble, number, group_id, wave)
DO UPDATE SET state = excluded.state, reason = excluded.reason, run = excluded.run, at_ms = excluded.at_ms;
