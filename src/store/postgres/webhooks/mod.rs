//! The port [`Outbox`] on the store. Nodes take due deliveries with leases, so that each is sent by one node;
//! deliveries are made by the transaction that ends a job or batch.

use crate::domain::delivery_turns::DeliveryTurns;
use crate::domain::id::{DeliveryId, UserId};
use crate::domain::webhook::{AfterAttempt, Delivery, DeliveryAttempt};
use crate::ports::{CancelToken, DeliveryPage, DeliveryQuery, Outbox, StoreError, Ticket};
use crate::store::postgres::session::{Columns, SqlSession, sql_number, sql_user};
use crate::store::postgres::store::PostgresStore;
use crate::store::postgres::writer::act::Act;
use std::time::Duration;
use take::DeliveryTaker;

pub(crate) mod deliveries;
pub(crate) mod take;

impl Outbox for PostgresStore {
    /// Takes these deliveries: no other node gets one of their users and receivers until they are settled,
    /// until this node asks again without them in `turns`, or until the lease ends.
    fn due(&self, now_ms: u64, max: usize, turns: &DeliveryTurns) -> Result<Vec<Delivery>, StoreError> {
        let taker = DeliveryTaker { node: self.shared.node.id(), turns: turns.clone(), max };
        let now_ms = self.shared.shared_time_ms(now_ms);
        // Spares a node that looks in vain the transaction.
        let next = self.read(async |session: &SqlSession<'_>| taker.pick(session, now_ms).await)?;
        if next.is_empty() {
            return Ok(Vec::new());
        }
        self.write(async move |act: &mut Act<'_>| act.take_deliveries(now_ms, &taker).await).wait()
    }

    fn next_due_ms(&self) -> Result<Option<u64>, StoreError> {
        let due_ms = self.read(async |session: &SqlSession<'_>| {
            session.one("SELECT min(next_try_ms) FROM deliveries", &[]).await?.optional_number(0)
        })?;
        Ok(due_ms.map(|due_ms| self.shared.node_time_ms(due_ms)))
    }

    fn settle(&self, id: DeliveryId, mut attempt: DeliveryAttempt) -> Ticket<()> {
        if let AfterAttempt::Retry { at_ms } = &mut attempt.next {
            *at_ms = self.shared.shared_time_ms(*at_ms);
        }
        self.write(async move |act: &mut Act<'_>| act.settle_delivery(id, &attempt).await)
    }

    fn again(&self, user: UserId, id: DeliveryId) -> Ticket<Option<Delivery>> {
        self.write(async move |act: &mut Act<'_>| act.retry_delivery(user, id).await)
    }

    fn delivery(&self, user: UserId, id: DeliveryId) -> Result<Option<Delivery>, StoreError> {
        self.read(async |session: &SqlSession<'_>| {
            let sql =
                "SELECT delivery::text FROM deliveries WHERE id = $1 AND user_id IS NOT DISTINCT FROM $2";
            let found = session.row(sql, &[&id.to_string(), &sql_user(user)]).await?;
            found.map(|row| row.document(0)).transpose()
        })
    }

    fn deliveries(&self, query: &DeliveryQuery) -> Result<DeliveryPage, StoreError> {
        self.read(async |session: &SqlSession<'_>| page(session, query).await)
    }

    fn delivery_changes(&self) -> u64 {
        self.shared.deliveries.count()
    }

    fn wait_for_deliveries(&self, seen: u64, cancel: &CancelToken, timeout: Duration) {
        self.shared.deliveries.wait(seen, cancel, timeout);
    }

    fn wake_dispatcher(&self) {
        self.shared.deliveries.notify();
    }
}

async fn page(session: &SqlSession<'_>, query: &DeliveryQuery) -> Result<DeliveryPage, StoreError> {
    // '~' sorts after every id.
    let before = query.before.map_or_else(|| "~".to_owned(), |id| id.to_string());
    let (user, limit) = (sql_user(query.user), sql_number(query.limit.saturating_add(1)));
    let rows = match query.state {
        None => {
            let sql = "SELECT delivery::text FROM deliveries WHERE user_id = $1 AND id < $2 \
                       ORDER BY id DESC LIMIT $3";
            session.rows(sql, &[&user, &before, &limit]).await?
        }
        Some(state) => {
            let sql = "SELECT delivery::text FROM deliveries WHERE user_id = $1 AND state = $4 AND id < $2 \
                       ORDER BY id DESC LIMIT $3";
            session.rows(sql, &[&user, &before, &limit, &state.as_str()]).await?
        }
    };
    let has_more = rows.len() > query.limit;
    let deliveries = rows.iter().take(query.limit).map(|row| row.document(0)).collect::<Result<_, _>>()?;
    Ok(DeliveryPage { deliveries, has_more })
}

/// Number of deliveries that wait for an attempt.
pub(crate) async fn pending_deliveries(session: &SqlSession<'_>) -> Result<u64, StoreError> {
    session.one("SELECT count(*) FROM deliveries WHERE next_try_ms IS NOT NULL", &[]).await?.number(0)
}
