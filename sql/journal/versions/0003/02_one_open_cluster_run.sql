-- The lock: one open run a cluster, whoever asks, for as long as it is open.
CREATE UNIQUE INDEX one_open_cluster_run ON cluster_run (cluster_id)
WHERE state IN ('open', 'going_back');
