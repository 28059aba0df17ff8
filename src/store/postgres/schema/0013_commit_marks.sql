-- Which transaction of a node was committed last, in each of its lanes: a transaction marks itself. A node whose
-- connection ends at a commit reads here what became of it. Numbers of transactions of the database say nothing
-- then: it gives those that a crash has lost to others.
CREATE TABLE commit_marks (
  node bigint NOT NULL REFERENCES nodes ON DELETE CASCADE,
  lane integer NOT NULL,
  number bigint NOT NULL,
  PRIMARY KEY (node, lane)
) WITH (fillfactor = 50);
