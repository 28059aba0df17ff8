-- What operators ask about nodes. Null for nodes of the layout before, which write none of it.

ALTER TABLE nodes
  -- the newest layout that its build knows
  ADD COLUMN layout integer,
  ADD COLUMN lease_ms bigint,
  -- maximum connections that it makes
  ADD COLUMN connections bigint,
  -- digests of what jobs may use there
  ADD COLUMN tools text,
  ADD COLUMN models text;
