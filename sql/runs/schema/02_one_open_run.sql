-- The lock: one open run of a target, whoever asks. What a cluster and its groups exclude is asked in the
-- transaction (in_the_way).
CREATE UNIQUE INDEX one_open_run ON run (target_kind, target, within)
WHERE state IN ('planned', 'approved', 'running', 'rolling_back');
