//! Takes due deliveries with leases: one for each host over all nodes. Takers follow each other under a lock,
//! so each one sees what the others have taken.

use crate::domain::id::DeliveryId;
use crate::domain::webhook::Delivery;
use crate::ports::StoreError;
use crate::store::postgres::session::{Columns, SqlSession, sql_number};
use crate::store::postgres::writer::act::Act;

/// How long a delivery that cannot be read lets the others of its host go first, milliseconds.
const UNREADABLE_DELAY_MS: u64 = 3_600_000;

/// Whether the lease of the row `t` has not ended. A node that is alive has five more minutes:
/// `webhooks.timeout_s` may be that long.
const IS_TAKEN: &str = "t.taken_until > clock_timestamp() - CASE WHEN EXISTS (SELECT FROM nodes n \
    WHERE n.id = t.taken_by_node AND n.lease_until > clock_timestamp()) THEN interval '5 minutes' \
    ELSE interval '0' END";

/// The first due delivery of each host that this node may send to. This node ($3) names its busy hosts in $2;
/// other nodes have taken a delivery of theirs. Steps through the index from host to host, because a host
/// that is down may have many thousand deliveries.
fn free() -> String {
    let first = "SELECT d.host, d.next_try_ms, d.id FROM deliveries d WHERE d.next_try_ms IS NOT NULL";
    let order = "ORDER BY d.host, d.next_try_ms, d.id LIMIT 1";
    format!(
        "WITH RECURSIVE firsts AS (({first} {order}) UNION ALL SELECT n.host, n.next_try_ms, n.id FROM firsts \
         CROSS JOIN LATERAL ({first} AND d.host > firsts.host {order}) AS n), \
         free AS (SELECT host, next_try_ms, id FROM firsts WHERE next_try_ms <= $1 AND host <> ALL($2::text[]) \
         AND NOT EXISTS (SELECT FROM deliveries t WHERE t.host = firsts.host AND t.taken_by_node <> $3::bigint \
         AND {IS_TAKEN}))"
    )
}

/// Whether this node may find a delivery to take. Spares a node that looks in vain the transaction.
pub(crate) async fn has_free(
    session: &SqlSession<'_>,
    now_ms: u64,
    busy: &[String],
    node: i64,
) -> Result<bool, StoreError> {
    let sql = format!("{} SELECT EXISTS (SELECT FROM free)", free());
    session.one(&sql, &[&sql_number(now_ms), &busy, &node]).await?.column(0)
}

impl Act<'_> {
    /// Takes due deliveries for this node, longest overdue first: one for each host that is not in `busy`, at
    /// most `max`. Gives back what this node has taken before and does not send: its host is not in `busy`.
    pub(crate) async fn take_deliveries(
        &mut self,
        now_ms: u64,
        max: usize,
        busy: &[String],
    ) -> Result<Vec<Delivery>, StoreError> {
        self.lock_takers().await?;
        let sql = format!(
            "{}, picked AS (SELECT id FROM free ORDER BY next_try_ms, id LIMIT $4), \
             returned AS (UPDATE deliveries SET taken_by_node = NULL, taken_until = NULL \
             WHERE taken_until IS NOT NULL AND taken_by_node = $3 AND host <> ALL($2) \
             AND id NOT IN (SELECT id FROM picked)) \
             UPDATE deliveries d SET taken_by_node = $3, \
             taken_until = clock_timestamp() + $5::bigint * interval '1 second' \
             FROM picked WHERE d.id = picked.id AND d.next_try_ms <= $1 RETURNING d.id, d.delivery::text",
            free()
        );
        let lease_s = sql_number(self.shared.options.delivery_lease_s);
        let params = (sql_number(now_ms), sql_number(max));
        let rows = self.session.rows(&sql, &[&params.0, &busy, &self.node, &params.1, &lease_s]).await?;
        let (mut taken, mut unreadable) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in rows {
            let id: DeliveryId = row.parsed(0)?;
            match row.document::<Delivery>(1) {
                Ok(delivery) => taken.push(delivery),
                Err(error) => {
                    tracing::error!(%id, %error, "delivery cannot be read; it waits");
                    unreadable.push(id.to_string());
                }
            }
        }
        self.delay_unreadable(&unreadable, now_ms).await?;
        taken.sort_by_key(|delivery| (delivery.next_try_ms, delivery.id));
        Ok(taken)
    }

    /// Waits until no other node takes deliveries. The commit need not be durable: only a crash of the
    /// database forgets it. A node that stops here for long loses its connection, so that the others go on.
    async fn lock_takers(&mut self) -> Result<(), StoreError> {
        let sql = "SELECT set_config('synchronous_commit', 'off', true), \
                   set_config('idle_in_transaction_session_timeout', '10s', true), \
                   pg_advisory_xact_lock(hashtext('deliveries'), 'deliveries'::regclass::oid::integer)";
        self.session.send(sql, &[]).await
    }

    async fn delay_unreadable(&mut self, ids: &[String], now_ms: u64) -> Result<(), StoreError> {
        if ids.is_empty() {
            return Ok(());
        }
        let until_ms = sql_number(now_ms.saturating_add(UNREADABLE_DELAY_MS));
        let sql = "UPDATE deliveries SET next_try_ms = $2, taken_by_node = NULL, taken_until = NULL \
                   WHERE id = ANY($1)";
        self.session.send(sql, &[&ids, &until_ms]).await
    }
}
