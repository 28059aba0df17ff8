-- Events of all nodes, counted in windows of time: logins and requests. A crash of the database may forget
-- them, so counting needs no sync of the log.
CREATE UNLOGGED TABLE windows (
  name text NOT NULL,
  owner text NOT NULL,
  until_ms bigint NOT NULL,
  count bigint NOT NULL,
  PRIMARY KEY (name, owner)
);
CREATE INDEX windows_expiry ON windows (until_ms);
