INSERT INTO claim (migration, token, run, at_ms)
VALUES (:migration, :token, :run, :at_ms);
