-- Accounts, API tokens, invites, and what users have used.

CREATE TABLE users (
  id bigint PRIMARY KEY,
  -- name and address in lower case: unique whatever their case
  name_key text COLLATE "C" NOT NULL UNIQUE,
  email_key text COLLATE "C" UNIQUE,
  role text NOT NULL,
  is_active boolean NOT NULL,
  has_password boolean NOT NULL,
  row json NOT NULL
);

CREATE TABLE tokens (
  user_id bigint NOT NULL,
  id text COLLATE "C" NOT NULL,
  -- SHA-256 of the key
  digest bytea NOT NULL UNIQUE,
  expires_at_ms bigint,
  row json NOT NULL,
  PRIMARY KEY (user_id, id)
);

CREATE TABLE invites (
  -- SHA-256 of the code; the id is its first half
  digest bytea PRIMARY KEY,
  id text COLLATE "C" NOT NULL,
  created_at_ms bigint,
  expires_at_ms bigint NOT NULL,
  created_by bigint
);
CREATE INDEX invites_id ON invites (id, digest);
CREATE INDEX invites_expiry ON invites (expires_at_ms);

-- Names of models may be long and contain U+0000: the key has their SHA-256, and the name is a JSON string.
CREATE TABLE usage_daily (
  user_id bigint NOT NULL,
  -- days since 1970 in UTC
  day bigint NOT NULL,
  model_digest bytea NOT NULL,
  model json NOT NULL,
  prompt_tokens bigint NOT NULL,
  completion_tokens bigint NOT NULL,
  total_tokens bigint NOT NULL,
  cached_tokens bigint NOT NULL,
  reasoning_tokens bigint NOT NULL,
  cost_micros bigint NOT NULL,
  jobs bigint NOT NULL,
  PRIMARY KEY (user_id, day, model_digest)
);
CREATE INDEX usage_daily_day ON usage_daily (day);

CREATE TABLE usage_hourly (
  user_id bigint NOT NULL,
  -- hours since 1970
  hour bigint NOT NULL,
  model_digest bytea NOT NULL,
  model json NOT NULL,
  prompt_tokens bigint NOT NULL,
  completion_tokens bigint NOT NULL,
  total_tokens bigint NOT NULL,
  cached_tokens bigint NOT NULL,
  reasoning_tokens bigint NOT NULL,
  cost_micros bigint NOT NULL,
  jobs bigint NOT NULL,
  PRIMARY KEY (user_id, hour, model_digest)
);
CREATE INDEX usage_hourly_hour ON usage_hourly (hour);

-- Conversations as a whole. Both tables go with the conversation.
CREATE TABLE conversation_usage (
  user_id bigint NOT NULL,
  conversation text COLLATE "C" NOT NULL,
  model_digest bytea NOT NULL,
  model json NOT NULL,
  prompt_tokens bigint NOT NULL,
  completion_tokens bigint NOT NULL,
  total_tokens bigint NOT NULL,
  cached_tokens bigint NOT NULL,
  reasoning_tokens bigint NOT NULL,
  cost_micros bigint NOT NULL,
  PRIMARY KEY (user_id, conversation, model_digest)
);

CREATE TABLE conversation_usage_daily (
  user_id bigint NOT NULL,
  conversation text COLLATE "C" NOT NULL,
  day bigint NOT NULL,
  prompt_tokens bigint NOT NULL,
  completion_tokens bigint NOT NULL,
  total_tokens bigint NOT NULL,
  cached_tokens bigint NOT NULL,
  reasoning_tokens bigint NOT NULL,
  cost_micros bigint NOT NULL,
  jobs bigint NOT NULL,
  PRIMARY KEY (user_id, conversation, day)
);
