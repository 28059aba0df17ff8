//! Books usage by day or hour and model, and the cost of conversations, as a whole and by day. Each end of a
//! job books the usage since its last end, in the transaction of that end. Usage is never removed, because it
//! outlives jobs. That of a conversation goes with the conversation.

use crate::domain::id::{ConversationId, UserId};
use crate::domain::usage::{Usage, UsageByModel};
use crate::ports::{ACCOUNT_DAY_MS, ACCOUNT_HOUR_MS, StoreError};
use crate::store::postgres::accounts::usage_columns::{self, UsageArrays};
use crate::store::postgres::session::{document, sql_number, sql_user};
use crate::store::postgres::writer::act::{Act, UsageSlot};
use crate::store::rows::job::JobRow;
use sha2::{Digest, Sha256};

fn add_sql() -> String {
    let (list, additions) = (usage_columns::LIST, usage_columns::additions());
    let jobs = usage_columns::addition("jobs");
    let insert = |table: &str, time: &str, rows: &str| {
        format!(
            "INSERT INTO {table} AS s (user_id, {time}, model_digest, model, {list}, jobs) \
             SELECT user_id, at, model_digest, model::json, {list}, jobs FROM added WHERE {rows} ORDER BY nth \
             ON CONFLICT (user_id, {time}, model_digest) DO UPDATE SET {additions}, {jobs}"
        )
    };
    let (daily, hourly) =
        (insert("usage_daily", "day", "NOT is_hour"), insert("usage_hourly", "hour", "is_hour"));
    format!(
        "WITH added AS (SELECT * FROM unnest($1::bigint[], $2::boolean[], $3::bigint[], $4::bytea[], $5::text[], \
             $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[]) \
             WITH ORDINALITY AS u(user_id, is_hour, at, model_digest, model, {list}, jobs, nth)), \
         daily AS ({daily}) {hourly}"
    )
}

/// Models for many rows, to be bound as arrays.
#[derive(Debug, Default)]
struct ModelArrays {
    digests: Vec<Vec<u8>>,
    /// As JSON strings.
    names: Vec<String>,
}

impl ModelArrays {
    fn push(&mut self, model: &str) -> Result<(), StoreError> {
        self.digests.push(Sha256::digest(model).to_vec());
        self.names.push(document(&model)?);
        Ok(())
    }
}

impl Act<'_> {
    /// Adds the collected usage to its slots in one statement, which locks their rows in the order of the
    /// slots.
    pub(crate) async fn add_usage(&mut self) -> Result<(), StoreError> {
        if self.usage.is_empty() {
            return Ok(());
        }
        let (mut users, mut are_hours, mut times) = (Vec::new(), Vec::new(), Vec::new());
        let (mut models, mut usages, mut job_counts) =
            (ModelArrays::default(), UsageArrays::default(), Vec::new());
        for (slot, (usage, jobs)) in std::mem::take(&mut self.usage) {
            users.push(sql_user(slot.user));
            are_hours.push(slot.is_hour);
            times.push(sql_number(slot.at));
            models.push(&slot.model)?;
            usages.push(usage);
            job_counts.push(sql_number(jobs));
        }
        let [prompt, completion, total, cached, reasoning, cost] = usages.arrays();
        self.session
            .send(
                &add_sql(),
                &[
                    &users,
                    &are_hours,
                    &times,
                    &models.digests,
                    &models.names,
                    prompt,
                    completion,
                    total,
                    cached,
                    reasoning,
                    cost,
                    &job_counts,
                ],
            )
            .await
    }

    /// Books the usage of an ending job that is not booked yet: collects it in `self.usage`.
    pub(crate) async fn book(&mut self, row: &mut JobRow) -> Result<(), StoreError> {
        row.job.usage = row.ledger.total();
        let rest = row.ledger.since(&row.booked);
        if rest.is_empty() {
            return Ok(());
        }
        for (model, usage) in rest.entries() {
            let jobs = u64::from(row.booked.of(model).is_none());
            self.book_model(row.job.user, model, usage, jobs);
        }
        // A removed conversation has no cost row.
        if let Some(conversation) = &row.job.conversation_id
            && self.conversation_of(row).await?.is_some()
        {
            let jobs = u64::from(row.booked.is_empty());
            self.book_conversation((row.job.user, conversation), &rest, jobs).await?;
        }
        row.booked = row.ledger.clone();
        Ok(())
    }

    /// Books usage of a model by day and by hour; the flush adds it.
    pub(crate) fn book_model(&mut self, user: UserId, model: &str, usage: Usage, jobs: u64) {
        for (is_hour, slot_ms) in [(false, ACCOUNT_DAY_MS), (true, ACCOUNT_HOUR_MS)] {
            let at = u32::try_from(self.now_ms / slot_ms).unwrap_or(u32::MAX);
            let slot = UsageSlot { user, is_hour, at, model: model.to_owned() };
            let (sum, job_sum) = self.usage.entry(slot).or_default();
            *sum += usage;
            *job_sum = job_sum.saturating_add(jobs);
        }
    }

    async fn book_conversation(
        &mut self,
        (user, conversation): (UserId, &ConversationId),
        rest: &UsageByModel,
        jobs: u64,
    ) -> Result<(), StoreError> {
        let (mut models, mut usages) = (ModelArrays::default(), UsageArrays::default());
        for (model, usage) in rest.entries() {
            models.push(model)?;
            usages.push(usage);
        }
        let day = u32::try_from(self.now_ms / ACCOUNT_DAY_MS).unwrap_or(u32::MAX);
        let key = (sql_user(user), conversation.as_str(), sql_number(day), sql_number(jobs));
        let [prompt, completion, total, cached, reasoning, cost] = usages.arrays();
        self.session
            .send(
                &book_conversation_sql(),
                &[
                    &key.0,
                    &key.1,
                    &key.2,
                    &key.3,
                    &models.digests,
                    &models.names,
                    prompt,
                    completion,
                    total,
                    cached,
                    reasoning,
                    cost,
                ],
            )
            .await
    }

    /// Removes the usage of a removed conversation.
    pub(crate) async fn forget_conversation_usage(
        &mut self,
        user: UserId,
        conversation: &ConversationId,
    ) -> Result<(), StoreError> {
        let sql = "WITH daily AS (DELETE FROM conversation_usage_daily WHERE user_id = $1 AND conversation = $2) \
                   DELETE FROM conversation_usage WHERE user_id = $1 AND conversation = $2";
        self.session.send(sql, &[&sql_user(user), &conversation.as_str()]).await
    }
}

fn book_conversation_sql() -> String {
    let (list, sums, additions) = (usage_columns::LIST, usage_columns::sums(), usage_columns::additions());
    let jobs = usage_columns::addition("jobs");
    format!(
        "WITH added AS (SELECT * FROM unnest($5::bytea[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[], \
             $10::bigint[], $11::bigint[], $12::bigint[]) WITH ORDINALITY AS u(model_digest, model, {list}, nth)), \
         whole AS (INSERT INTO conversation_usage AS s (user_id, conversation, model_digest, model, {list}) \
             SELECT $1::bigint, $2::text, model_digest, model::json, {list} FROM added ORDER BY nth \
             ON CONFLICT (user_id, conversation, model_digest) DO UPDATE SET {additions}) \
         INSERT INTO conversation_usage_daily AS s (user_id, conversation, day, {list}, jobs) \
         SELECT $1::bigint, $2::text, $3::bigint, {sums}, $4::bigint FROM added \
         ON CONFLICT (user_id, conversation, day) DO UPDATE SET {additions}, {jobs}"
    )
}
