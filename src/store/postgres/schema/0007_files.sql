-- Uploaded files, and what names images. Their contents are kept outside of the database, by digest.

CREATE TABLE files (
  user_id bigint NOT NULL,
  id text COLLATE "C" NOT NULL,
  purpose text NOT NULL,
  bytes bigint NOT NULL,
  content text COLLATE "C" NOT NULL,
  created_at_ms bigint NOT NULL,
  expires_at_ms bigint,
  file json NOT NULL,
  PRIMARY KEY (user_id, id)
);
CREATE INDEX files_expiring ON files (expires_at_ms) WHERE expires_at_ms IS NOT NULL;
CREATE INDEX files_by_content ON files (content);

-- Images of jobs, lines of batches, schedules and added items of conversations.
CREATE TABLE images (
  holder text COLLATE "C" NOT NULL,
  content text COLLATE "C" NOT NULL,
  user_id bigint NOT NULL,
  bytes bigint NOT NULL,
  PRIMARY KEY (holder, content)
);
CREATE INDEX images_by_content ON images (content);

-- Files and images of each user together. Contents count for each file, and for each holder of an image.
CREATE TABLE file_totals (
  user_id bigint PRIMARY KEY,
  files bigint NOT NULL DEFAULT 0,
  bytes bigint NOT NULL DEFAULT 0,
  image_bytes bigint NOT NULL DEFAULT 0
);
