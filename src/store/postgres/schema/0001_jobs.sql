-- Jobs, their queue, their logs, and the nodes that run them.
-- Times are unix milliseconds. Documents are json, not jsonb: jsonb cannot hold U+0000, which tools may write.

CREATE TABLE nodes (
  id bigint PRIMARY KEY,
  name text NOT NULL,
  version text NOT NULL,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  lease_until timestamptz NOT NULL
);
CREATE SEQUENCE node_ids;

CREATE TABLE settings (
  key text PRIMARY KEY,
  value text NOT NULL
);

CREATE SEQUENCE accept_numbers;

CREATE TABLE jobs (
  id text COLLATE "C" PRIMARY KEY,
  accept bigint NOT NULL,
  user_id bigint NOT NULL,
  -- that of the job, or unreadable: set aside, until somebody mends the row
  status text NOT NULL,
  -- ready, delayed, behind (an earlier job of its conversation) or out (it runs, or has ended)
  place text NOT NULL,
  priority smallint NOT NULL,
  fair bigint,
  ready_since_ms bigint,
  due_ms bigint,
  conversation text COLLATE "C",
  is_background boolean NOT NULL,
  is_completion boolean NOT NULL,
  batch text COLLATE "C",
  line integer,
  parent text COLLATE "C",
  model text NOT NULL,
  epoch bigint NOT NULL DEFAULT 0,
  lease_node bigint,
  cancel_requested boolean NOT NULL DEFAULT false,
  created_at_ms bigint NOT NULL,
  finished_at_ms bigint,
  -- what retention has done: 0 whole, 1 deltas joined, 2 log cut, 3 nothing more: the job cannot be read
  retention smallint NOT NULL DEFAULT 0,
  row json NOT NULL,
  spec json NOT NULL,
  -- a JSON string
  output json
);
CREATE INDEX jobs_ready ON jobs (priority, fair, accept) WHERE place = 'ready';
CREATE INDEX jobs_ready_user ON jobs (user_id, priority, fair, accept) WHERE place = 'ready';
CREATE INDEX jobs_delayed ON jobs (due_ms, accept) WHERE place = 'delayed';
CREATE INDEX jobs_running ON jobs (lease_node) WHERE status = 'running';
CREATE INDEX jobs_waiting ON jobs (user_id) WHERE status = 'waiting';
CREATE INDEX jobs_of_user ON jobs (user_id, status, accept);
CREATE INDEX jobs_by_user ON jobs (user_id, accept);
CREATE INDEX jobs_unfinished ON jobs (user_id) WHERE status IN ('queued', 'running', 'waiting');
CREATE INDEX jobs_in_conversation ON jobs (user_id, conversation, accept)
  WHERE conversation IS NOT NULL;
CREATE INDEX jobs_waiting_in_conversation ON jobs (user_id, conversation, accept)
  WHERE conversation IS NOT NULL AND NOT is_background AND status IN ('queued', 'running', 'waiting');
CREATE INDEX jobs_background ON jobs (user_id, id)
  WHERE is_background AND status IN ('queued', 'running', 'waiting');
CREATE INDEX jobs_completions ON jobs (user_id, id) WHERE is_completion;
CREATE INDEX jobs_ended ON jobs (retention, finished_at_ms) WHERE finished_at_ms IS NOT NULL;

CREATE TABLE records (
  job text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  -- 0: an event; otherwise the number of the mark after it
  sub integer NOT NULL,
  body json NOT NULL,
  -- names the full tool result in the body
  handle text COLLATE "C",
  PRIMARY KEY (job, seq, sub)
);
CREATE INDEX records_results ON records (job, handle) WHERE handle IS NOT NULL;

-- The fair time of the job that each priority served last.
CREATE SEQUENCE served_0 MINVALUE 0 START 0; CREATE SEQUENCE served_1 MINVALUE 0 START 0;
CREATE SEQUENCE served_2 MINVALUE 0 START 0; CREATE SEQUENCE served_3 MINVALUE 0 START 0;
CREATE SEQUENCE served_4 MINVALUE 0 START 0; CREATE SEQUENCE served_5 MINVALUE 0 START 0;
CREATE SEQUENCE served_6 MINVALUE 0 START 0; CREATE SEQUENCE served_7 MINVALUE 0 START 0;
CREATE SEQUENCE served_8 MINVALUE 0 START 0; CREATE SEQUENCE served_9 MINVALUE 0 START 0;

CREATE TABLE idempotency (
  user_id bigint NOT NULL,
  key bytea NOT NULL,
  fingerprint bytea NOT NULL,
  -- the id of a job or of a batch
  effect text COLLATE "C" NOT NULL,
  until_ms bigint NOT NULL,
  PRIMARY KEY (user_id, key)
);
CREATE INDEX idempotency_expiry ON idempotency (until_ms);

-- Requests for approvals that were answered, and the jobs that act on the answers.
CREATE TABLE answered_approvals (
  job text COLLATE "C" NOT NULL,
  place bigint NOT NULL,
  answering text COLLATE "C" NOT NULL,
  PRIMARY KEY (job, place)
);
CREATE INDEX answered_approvals_answering ON answered_approvals (answering);

-- Bytes of users' rows, if quotas hold.
CREATE TABLE stored_bytes (
  user_id bigint PRIMARY KEY,
  bytes bigint NOT NULL
);
