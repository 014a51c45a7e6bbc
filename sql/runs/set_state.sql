UPDATE run
SET state = :state
WHERE run = :run;
