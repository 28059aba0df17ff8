-- Ends of jobs whose spans wait for the export to a collector of OpenTelemetry, if `otlp.endpoint` is set.
CREATE TABLE span_exports (
  finished_at_ms bigint NOT NULL,
  job text COLLATE "C" NOT NULL,
  user_id bigint NOT NULL,
  -- the node that exports them, and the end of its lease by the clock of the database
  taken_by_node bigint,
  taken_until timestamptz,
  PRIMARY KEY (finished_at_ms, job)
);
