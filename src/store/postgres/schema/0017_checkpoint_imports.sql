-- Imported jobs that the next checkpoint looks at: those that ended before the last one are in no window.
CREATE TABLE checkpoint_imports (
  job text COLLATE "C" PRIMARY KEY
);
