-- Conversations: their settings, their messages, and what models read of them.
-- Places in a conversation are acceptance numbers. Those below `floor` belong to a removed conversation of the
-- same name.

CREATE TABLE conversations (
  user_id bigint NOT NULL,
  id text COLLATE "C" NOT NULL,
  floor bigint NOT NULL,
  -- jobs accepted up to here may have read messages that were deleted since
  edited_through bigint NOT NULL DEFAULT 0,
  created_at_ms bigint NOT NULL,
  updated_at_ms bigint NOT NULL,
  message_count bigint NOT NULL DEFAULT 0,
  project text COLLATE "C",
  -- title, settings and labels; the columns are the truth of what they repeat
  row json NOT NULL,
  PRIMARY KEY (user_id, id)
);
CREATE INDEX conversations_by_time ON conversations (user_id, updated_at_ms DESC, id);
CREATE INDEX conversations_of_project ON conversations (user_id, project) WHERE project IS NOT NULL;

-- Question and answer of a job. Users read their text from the job.
CREATE TABLE message_pairs (
  user_id bigint NOT NULL,
  conversation text COLLATE "C" NOT NULL,
  accept bigint NOT NULL,
  job text COLLATE "C" NOT NULL,
  -- the first job that had the question
  ask text COLLATE "C" NOT NULL,
  ask_created_at_ms bigint NOT NULL,
  shows_question boolean NOT NULL,
  shows_answer boolean NOT NULL,
  PRIMARY KEY (user_id, conversation, accept)
);
CREATE INDEX message_pairs_ask ON message_pairs (ask);

-- What models read: messages of ended jobs, and of added items.
CREATE TABLE turns (
  user_id bigint NOT NULL,
  conversation text COLLATE "C" NOT NULL,
  accept bigint NOT NULL,
  message_count integer NOT NULL,
  message_bytes integer NOT NULL,
  messages json NOT NULL,
  PRIMARY KEY (user_id, conversation, accept)
);

-- Replace the turns up to a number.
CREATE TABLE summaries (
  user_id bigint NOT NULL,
  conversation text COLLATE "C" NOT NULL,
  through bigint NOT NULL,
  summary json NOT NULL,
  PRIMARY KEY (user_id, conversation)
);

-- Items that clients added, and deleted items of jobs.
CREATE TABLE conversation_items (
  user_id bigint NOT NULL,
  conversation text COLLATE "C" NOT NULL,
  accept bigint NOT NULL,
  -- of added items; NULL for those of a job
  added_at_ms bigint,
  has_images boolean NOT NULL DEFAULT false,
  -- how many messages of a job's turn are the question, if not all of its input
  question integer,
  edits bigint NOT NULL,
  items json NOT NULL,
  PRIMARY KEY (user_id, conversation, accept)
);
CREATE INDEX conversation_items_added ON conversation_items (added_at_ms) WHERE added_at_ms IS NOT NULL;

-- Places of removed conversations and replaced answers that the sweeper clears.
CREATE TABLE removed_conversations (
  user_id bigint NOT NULL,
  conversation text COLLATE "C" NOT NULL,
  first_accept bigint NOT NULL,
  last_accept bigint NOT NULL,
  PRIMARY KEY (user_id, conversation, last_accept)
);
