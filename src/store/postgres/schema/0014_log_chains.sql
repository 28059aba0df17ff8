-- The hash chain of each log: SHA-256 of the link before, of the place and of the bytes of the body. Records of
-- earlier versions, and of nodes that still run one, have none.
ALTER TABLE records ADD COLUMN link bytea;

-- Signed checkpoints over the heads of ended jobs, each chained to the one before.
CREATE TABLE log_checkpoints (
  number bigint PRIMARY KEY,
  checkpoint json NOT NULL
);
