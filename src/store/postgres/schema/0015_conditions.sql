-- Jobs that wait for the end of others, and when the store looks whether a job has to end.
CREATE TABLE job_dependents (
  predecessor text COLLATE "C" NOT NULL,
  dependent text COLLATE "C" NOT NULL,
  PRIMARY KEY (predecessor, dependent)
);
-- Whether others may wait for its end: read with the lock of the row, so that its end sees the newest one.
ALTER TABLE jobs ADD COLUMN has_dependents boolean NOT NULL DEFAULT false;
-- Of an unfinished job; 0: at once, whatever the clock says.
ALTER TABLE jobs ADD COLUMN ends_at_ms bigint;
CREATE INDEX jobs_ends ON jobs (ends_at_ms) WHERE ends_at_ms IS NOT NULL;
