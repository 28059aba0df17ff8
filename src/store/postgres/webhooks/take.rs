//! Takes due deliveries with leases: users take turns over all nodes. Takers follow each other under a lock,
//! so each one sees what the others have taken.

use crate::domain::delivery_turns::{DeliveryTurns, DueDelivery};
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

/// The longest overdue delivery of each user and receiver ($1: now) except those in progress ($2), of each
/// user at most $3. Steps through the index from receiver to receiver, because one that is down may have many
/// thousand deliveries.
fn candidates() -> String {
    let first =
        "SELECT d.user_id, d.host, d.next_try_ms, d.id FROM deliveries d WHERE d.next_try_ms IS NOT NULL";
    let order = "ORDER BY d.user_id, d.host, d.next_try_ms, d.id LIMIT 1";
    format!(
        "WITH RECURSIVE firsts AS (({first} {order}) UNION ALL \
         SELECT n.user_id, n.host, n.next_try_ms, n.id FROM firsts CROSS JOIN LATERAL \
         ({first} AND (d.user_id, d.host) > (firsts.user_id, firsts.host) {order}) AS n), \
         free AS (SELECT *, row_number() OVER (PARTITION BY user_id ORDER BY next_try_ms, id) AS place \
         FROM firsts WHERE next_try_ms <= $1 AND {RECEIVER} <> ALL($2::text[])) \
         SELECT id, user_id, host, next_try_ms FROM free WHERE place <= $3"
    )
}

/// User and receiver of a row, as a text.
const RECEIVER: &str = "(user_id::text || ' ' || host)";

/// The same of the deliveries in progress.
fn receiver_texts(turns: &DeliveryTurns) -> Vec<String> {
    turns.receivers().map(|(user, receiver)| format!("{} {receiver}", user.0)).collect()
}

/// A node that takes deliveries.
pub(crate) struct DeliveryTaker {
    pub(crate) node: i64,
    /// What it has in progress.
    pub(crate) turns: DeliveryTurns,
    pub(crate) max: usize,
}

impl DeliveryTaker {
    /// The deliveries that begin next, by the turns of all nodes together.
    pub(crate) async fn pick(
        &self,
        session: &SqlSession<'_>,
        now_ms: u64,
    ) -> Result<Vec<DueDelivery>, StoreError> {
        let mut turns = self.turns.clone();
        let sql = format!(
            "SELECT t.user_id, t.host FROM deliveries t WHERE t.taken_until IS NOT NULL AND t.taken_by_node <> $1 \
             AND {IS_TAKEN}"
        );
        for row in session.rows(&sql, &[&self.node]).await? {
            turns.take(row.user(0)?, row.column(1)?);
        }
        let taken = receiver_texts(&turns);
        let params = (sql_number(now_ms), sql_number(self.max));
        let rows = session.rows(&candidates(), &[&params.0, &taken, &params.1]).await?;
        let due = rows.iter().map(|row| {
            let receiver: &str = row.column(2)?;
            let (user, due_ms) = (row.user(1)?, row.number(3)?);
            Ok(DueDelivery { id: row.parsed(0)?, user, receiver: receiver.to_owned(), due_ms })
        });
        Ok(turns.pick(due.collect::<Result<_, StoreError>>()?, self.max))
    }
}

impl Act<'_> {
    /// Takes the deliveries that begin next for this node, in order. Gives back what this node has taken
    /// before and does not send.
    pub(crate) async fn take_deliveries(
        &mut self,
        now_ms: u64,
        sender: &DeliveryTaker,
    ) -> Result<Vec<Delivery>, StoreError> {
        self.lock_takers().await?;
        let next = sender.pick(&self.session, now_ms).await?;
        let ids: Vec<String> = next.iter().map(|delivery| delivery.id.to_string()).collect();
        let sent = receiver_texts(&sender.turns);
        let sql = format!(
            "WITH returned AS (UPDATE deliveries SET taken_by_node = NULL, taken_until = NULL \
             WHERE taken_until IS NOT NULL AND taken_by_node = $2 AND {RECEIVER} <> ALL($3::text[]) \
             AND id <> ALL($1::text[])) \
             UPDATE deliveries d SET taken_by_node = $2, \
             taken_until = clock_timestamp() + $4::bigint * interval '1 second' \
             WHERE d.id = ANY($1::text[]) AND d.next_try_ms <= $5 RETURNING d.id, d.delivery::text"
        );
        let (lease_s, now) = (sql_number(self.shared.options.delivery_lease_s), sql_number(now_ms));
        let rows = self.session.rows(&sql, &[&ids, &sender.node, &sent, &lease_s, &now]).await?;
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
        taken.sort_by_key(|delivery| next.iter().position(|due| due.id == delivery.id));
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
