-- Counts of users that quotas and limits need. Triggers keep them, so nodes of the version before do so, too.
-- A row is a change, and their sum is the count: transactions of one user do not wait for each other. Rows are
-- joined now and then.
CREATE TABLE quota_counts (
  user_id bigint NOT NULL,
  -- unfinished jobs
  jobs bigint NOT NULL DEFAULT 0,
  -- lines of open batches that have no job yet
  lines bigint NOT NULL DEFAULT 0,
  conversations bigint NOT NULL DEFAULT 0
);
CREATE INDEX quota_counts_user ON quota_counts (user_id) INCLUDE (jobs, lines, conversations);

CREATE FUNCTION is_unfinished(status text) RETURNS boolean LANGUAGE sql IMMUTABLE
  AS $$ SELECT status IN ('queued', 'running', 'waiting') $$;

CREATE FUNCTION waiting_lines(batch batches) RETURNS bigint LANGUAGE sql IMMUTABLE
  AS $$ SELECT CASE WHEN batch.status = 'in_progress' AND batch.finished_at_ms IS NULL
    THEN batch.total - batch.next_line ELSE 0 END $$;

CREATE FUNCTION count_new_jobs() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  INSERT INTO quota_counts (user_id, jobs)
    SELECT user_id, count(*) FROM added WHERE is_unfinished(status) GROUP BY user_id;
  RETURN NULL;
END $$;
CREATE TRIGGER count_new_jobs AFTER INSERT ON jobs
  REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_jobs();

CREATE FUNCTION count_job() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND is_unfinished(new.status) THEN
    INSERT INTO quota_counts (user_id, jobs) VALUES (new.user_id, 1);
  ELSE
    INSERT INTO quota_counts (user_id, jobs) VALUES (old.user_id, -1);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER count_changed_job AFTER UPDATE OF status ON jobs FOR EACH ROW
  WHEN (is_unfinished(old.status) <> is_unfinished(new.status)) EXECUTE FUNCTION count_job();
CREATE TRIGGER count_removed_job AFTER DELETE ON jobs FOR EACH ROW
  WHEN (is_unfinished(old.status)) EXECUTE FUNCTION count_job();

CREATE FUNCTION count_lines() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  change bigint := 0;
  owner bigint;
BEGIN
  IF TG_OP <> 'INSERT' THEN
    owner := old.user_id;
    change := change - waiting_lines(old);
  END IF;
  IF TG_OP <> 'DELETE' THEN
    owner := new.user_id;
    change := change + waiting_lines(new);
  END IF;
  IF change <> 0 THEN
    INSERT INTO quota_counts (user_id, lines) VALUES (owner, change);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER count_lines AFTER INSERT OR UPDATE OR DELETE ON batches FOR EACH ROW
  EXECUTE FUNCTION count_lines();

CREATE FUNCTION count_new_conversations() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  INSERT INTO quota_counts (user_id, conversations) SELECT user_id, count(*) FROM added GROUP BY user_id;
  RETURN NULL;
END $$;
CREATE TRIGGER count_new_conversations AFTER INSERT ON conversations
  REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_conversations();

CREATE FUNCTION count_removed_conversations() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  INSERT INTO quota_counts (user_id, conversations) SELECT user_id, -count(*) FROM removed GROUP BY user_id;
  RETURN NULL;
END $$;
CREATE TRIGGER count_removed_conversations AFTER DELETE ON conversations
  REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_removed_conversations();

-- The triggers hold the tables, so nothing is missed or counted twice.
INSERT INTO quota_counts (user_id, jobs)
  SELECT user_id, count(*) FROM jobs WHERE status IN ('queued', 'running', 'waiting') GROUP BY user_id;
INSERT INTO quota_counts (user_id, lines)
  SELECT user_id, sum(total - next_line) FROM batches
  WHERE status = 'in_progress' AND finished_at_ms IS NULL GROUP BY user_id;
INSERT INTO quota_counts (user_id, conversations)
  SELECT user_id, count(*) FROM conversations GROUP BY user_id;
