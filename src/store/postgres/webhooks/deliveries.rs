//! Stored webhook deliveries. The document is the truth; columns repeat what queries ask about. Only the
//! columns know who sends a delivery.

use crate::domain::id::{DeliveryId, UserId};
use crate::domain::webhook::{Delivery, DeliveryAttempt, DeliveryState, WebhookSubject, WebhookUrl};
use crate::ports::StoreError;
use crate::store::postgres::session::{Columns, document, sql_number, sql_user};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::delivery::{KEPT_MS, SWEEP};

/// Whether a write ends the lease of the node that sends the delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeliveryLease {
    Stays,
    /// It ends if it is this node's, or of a node that is gone. Another node may have taken a delivery over
    /// that this one has sent for too long.
    Ends,
}

impl Act<'_> {
    /// Puts a delivery into the outbox, in the transaction of its event.
    pub(crate) async fn report(
        &mut self,
        user: UserId,
        subject: WebhookSubject,
        url: &WebhookUrl,
    ) -> Result<(), StoreError> {
        let id = DeliveryId::at(self.now_ms, subject.bits());
        let mut delivery = Delivery::new(id, user, subject, url.clone(), self.now_ms);
        while !self.insert_delivery(&delivery).await? {
            delivery.id = delivery.id.next();
        }
        self.effects.announcement.has_due_delivery = true;
        Ok(())
    }

    /// Inserts a new delivery. Returns whether its id was free.
    async fn insert_delivery(&mut self, delivery: &Delivery) -> Result<bool, StoreError> {
        let sql = "INSERT INTO deliveries (id, user_id, subject, host, state, tries, created_at_ms, next_try_ms, \
                   delivery) VALUES ($1, $2, $3, $4, $5, 0, $6, $7, $8::text::json) ON CONFLICT (id) DO NOTHING";
        let inserted = self
            .session
            .execute(
                sql,
                &[
                    &delivery.id.to_string(),
                    &sql_user(delivery.user),
                    &delivery.subject.to_string(),
                    &delivery.url.host_and_port(),
                    &delivery.state.as_str(),
                    &sql_number(delivery.created_at_ms),
                    &delivery.next_try_ms.map(sql_number),
                    &document(delivery)?,
                ],
            )
            .await?;
        Ok(inserted > 0)
    }

    /// Records an attempt and ends the lease of the delivery.
    pub(crate) async fn settle_delivery(
        &mut self,
        id: DeliveryId,
        attempt: &DeliveryAttempt,
    ) -> Result<(), StoreError> {
        let sql = "SELECT delivery::text FROM deliveries WHERE id = $1 FOR NO KEY UPDATE";
        let found = self.session.row(sql, &[&id.to_string()]).await?;
        let stored: Option<Delivery> = found.map(|row| row.document(0)).transpose()?;
        if let Some(mut delivery) = stored {
            if delivery.state == DeliveryState::Pending {
                delivery.take(attempt, self.now_ms);
                // The next due time has changed.
                self.effects.announcement.has_due_delivery |= delivery.state == DeliveryState::Pending;
            }
            self.update_delivery(&delivery, DeliveryLease::Ends).await?;
        }
        self.sweep_deliveries(SWEEP).await?;
        Ok(())
    }

    /// Makes a delivery due now. One that a node sends at this moment stays taken.
    pub(crate) async fn retry_delivery(
        &mut self,
        user: UserId,
        id: DeliveryId,
    ) -> Result<Option<Delivery>, StoreError> {
        let sql = "SELECT delivery::text FROM deliveries WHERE id = $1 AND user_id IS NOT DISTINCT FROM $2 FOR NO KEY UPDATE";
        let found = self.session.row(sql, &[&id.to_string(), &sql_user(user)]).await?;
        let Some(found) = found else { return Ok(None) };
        let old: Delivery = found.document(0)?;
        let mut new = old.clone();
        new.again(self.now_ms);
        if new != old {
            self.update_delivery(&new, DeliveryLease::Stays).await?;
            self.effects.announcement.has_due_delivery = true;
        }
        Ok(Some(new))
    }

    /// Writes a delivery whose row is locked.
    async fn update_delivery(&mut self, delivery: &Delivery, lease: DeliveryLease) -> Result<(), StoreError> {
        let stays = "NOT $8::boolean OR (taken_by_node <> $9 AND EXISTS (SELECT FROM nodes WHERE id = taken_by_node))";
        let sql = format!(
            "UPDATE deliveries SET state = $2, tries = $3, last_status = $4, next_try_ms = $5, settled_at_ms = $6, \
             delivery = $7::text::json, taken_by_node = CASE WHEN {stays} THEN taken_by_node END, \
             taken_until = CASE WHEN {stays} THEN taken_until END WHERE id = $1"
        );
        self.session
            .send(
                &sql,
                &[
                    &delivery.id.to_string(),
                    &delivery.state.as_str(),
                    &sql_number(delivery.tries),
                    &delivery.last_status.map(i32::from),
                    &delivery.next_try_ms.map(sql_number),
                    &delivery.settled_at_ms.map(sql_number),
                    &document(delivery)?,
                    &(lease == DeliveryLease::Ends),
                    &self.node,
                ],
            )
            .await
    }

    /// Removes settled deliveries that are too old, at most this many. Returns how many it removed.
    pub(crate) async fn sweep_deliveries(&mut self, limit: u32) -> Result<u32, StoreError> {
        let sql = "DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE settled_at_ms <= $1 \
                   ORDER BY settled_at_ms, id LIMIT $2 FOR UPDATE SKIP LOCKED)";
        let Some(until_ms) = self.now_ms.checked_sub(KEPT_MS) else { return Ok(0) };
        let removed = self.session.execute(sql, &[&sql_number(until_ms), &i64::from(limit)]).await?;
        Ok(u32::try_from(removed).unwrap_or(u32::MAX))
    }
}
