-- Webhook deliveries. Times in _ms are unix milliseconds; leases end by the clock of the database.

CREATE TABLE deliveries (
  id text COLLATE "C" PRIMARY KEY,
  user_id bigint NOT NULL,
  -- the id of the job or batch that ended
  subject text COLLATE "C" NOT NULL,
  -- host and port of the receiver, which gets one delivery at a time
  host text COLLATE "C" NOT NULL,
  state text NOT NULL,
  tries bigint NOT NULL,
  last_status integer,
  created_at_ms bigint NOT NULL,
  -- the next attempt of a pending delivery
  next_try_ms bigint,
  settled_at_ms bigint,
  -- the node that sends it, and the end of that node's lease
  taken_by_node bigint,
  taken_until timestamptz,
  delivery json NOT NULL
);
CREATE INDEX deliveries_due ON deliveries (next_try_ms) WHERE next_try_ms IS NOT NULL;
CREATE INDEX deliveries_of_host ON deliveries (host, next_try_ms, id) WHERE next_try_ms IS NOT NULL;
CREATE INDEX deliveries_taken ON deliveries (host) WHERE taken_until IS NOT NULL;
CREATE INDEX deliveries_of_user ON deliveries (user_id, id);
CREATE INDEX deliveries_in_state ON deliveries (user_id, state, id);
CREATE INDEX deliveries_settled ON deliveries (settled_at_ms, id) WHERE settled_at_ms IS NOT NULL;
