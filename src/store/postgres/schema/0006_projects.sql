-- Projects, and the names of directories that are in use although no project has them.

CREATE TABLE projects (
  id text COLLATE "C" PRIMARY KEY,
  user_id bigint NOT NULL,
  name text COLLATE "C" NOT NULL,
  directory text COLLATE "C" NOT NULL,
  created_at_ms bigint NOT NULL,
  updated_at_ms bigint NOT NULL,
  project json NOT NULL,
  UNIQUE (user_id, name)
);
CREATE INDEX projects_of_user ON projects (user_id, updated_at_ms DESC, id);

-- Projects being created or removed, of which only the directory may exist.
CREATE TABLE pending_directories (
  id text COLLATE "C" PRIMARY KEY,
  user_id bigint NOT NULL,
  directory text COLLATE "C" NOT NULL,
  project json NOT NULL
);
CREATE INDEX pending_directories_of_user ON pending_directories (user_id);
