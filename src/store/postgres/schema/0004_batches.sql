-- Batches and their lines. A line keeps its request until it becomes a job.

CREATE TABLE batches (
  id text COLLATE "C" PRIMARY KEY,
  user_id bigint NOT NULL,
  status text NOT NULL,
  total bigint NOT NULL,
  -- the first line that has no job yet
  next_line bigint NOT NULL,
  -- its jobs that have not ended
  active bigint NOT NULL,
  -- the quota that its next lines wait for
  waiting_for text,
  -- whether files with results are still to be written, now or after its end
  misses_files boolean NOT NULL,
  created_at_ms bigint NOT NULL,
  -- when it expires, if it is open
  expires_at_ms bigint,
  finished_at_ms bigint,
  row json NOT NULL
) WITH (fillfactor = 60);
CREATE INDEX batches_of_user ON batches (user_id, id);
CREATE INDEX batches_open ON batches (user_id) WHERE finished_at_ms IS NULL;
CREATE INDEX batches_waiting ON batches (user_id, id) WHERE waiting_for IS NOT NULL;
CREATE INDEX batches_without_files ON batches (user_id, id) WHERE misses_files;
CREATE INDEX batches_expiring ON batches (expires_at_ms) WHERE expires_at_ms IS NOT NULL;
CREATE INDEX batches_ended ON batches (finished_at_ms) WHERE finished_at_ms IS NOT NULL;

CREATE TABLE batch_lines (
  batch text COLLATE "C" NOT NULL,
  line integer NOT NULL,
  -- bytes of custom_id and spec
  bytes integer NOT NULL,
  -- a JSON string
  custom_id json NOT NULL,
  -- the request, until it is moved to a job
  spec json,
  has_images boolean NOT NULL DEFAULT false,
  -- the job, once the line has started
  job text COLLATE "C",
  -- whether the job has not ended
  is_active boolean NOT NULL DEFAULT false,
  -- its number in the order of ends, from 1
  ended integer,
  PRIMARY KEY (batch, line)
);
CREATE INDEX batch_lines_active ON batch_lines (batch, line) WHERE is_active;
CREATE INDEX batch_lines_ended ON batch_lines (batch, ended) WHERE ended IS NOT NULL;

-- Batches whose lines are stored and which are not accepted yet, with the node that takes them in.
CREATE TABLE unaccepted_batches (
  batch text COLLATE "C" PRIMARY KEY,
  user_id bigint NOT NULL,
  node bigint NOT NULL,
  lines bigint NOT NULL
);
CREATE INDEX unaccepted_batches_node ON unaccepted_batches (node);

-- Removed batches whose lines still exist; the sweeper removes them.
CREATE TABLE removed_batches (
  batch text COLLATE "C" PRIMARY KEY,
  user_id bigint NOT NULL
);
