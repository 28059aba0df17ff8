-- The audit log: tool calls of all nodes, with secrets masked. The number of rows is bounded by their ids.

CREATE TABLE audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  time_ms bigint NOT NULL,
  user_id bigint NOT NULL,
  -- NULL: a call that an operator made
  job text COLLATE "C",
  entry json NOT NULL
);
CREATE INDEX audit_of_job ON audit (job, id) WHERE job IS NOT NULL;
