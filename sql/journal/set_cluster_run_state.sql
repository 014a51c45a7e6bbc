UPDATE cluster_run
SET state = :state
WHERE run = :run;
