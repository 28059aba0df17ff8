-- Users take turns with webhook deliveries. Earlier builds go by host alone (deliveries_of_host).

CREATE INDEX deliveries_of_receiver ON deliveries (user_id, host, next_try_ms, id) WHERE next_try_ms IS NOT NULL;
