-- Schedules. Times are unix milliseconds.

CREATE TABLE schedules (
  id text COLLATE "C" PRIMARY KEY,
  user_id bigint NOT NULL,
  -- the next occurrence; NULL: none, because the schedule is paused, over, or cannot be read
  next_run_ms bigint,
  -- the clock when next_run_ms was computed
  armed_at_ms bigint NOT NULL,
  is_paused boolean NOT NULL,
  runs bigint NOT NULL,
  last_job text COLLATE "C",
  -- the tokens that the jobs of a model's schedule have spent, and their day since 1970; NULL: a user made it
  model_day bigint,
  model_tokens bigint,
  schedule json NOT NULL,
  -- the request of every run; written once
  request json NOT NULL
);
CREATE INDEX schedules_due ON schedules (next_run_ms, id) WHERE next_run_ms IS NOT NULL;
CREATE INDEX schedules_of_user ON schedules (user_id, id);
