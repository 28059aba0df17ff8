//! Answers a question again: a new job with the same input, or with another question, replaces the old answer
//! and everything after it. One transaction, so that no crash leaves a question without an answer.

use crate::domain::id::{ConversationId, JobId, UserId};
use crate::domain::job::{Job, JobSpec, JobStatus};
use crate::domain::webhook::WebhookSubject;
use crate::ports::{ConversationError, Idempotent, MessageRef, NewWork, RegenerateRequest, StoreError};
use crate::store::postgres::conversations::message_pair::find_message;
use crate::store::postgres::conversations::row::ConversationRange;
use crate::store::postgres::session::{Columns, sql_number};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::conversation::MessagePair;
use crate::store::rows::weight::spec_bytes;

/// Maximum number of pairs after the answer.
const TAIL: usize = 1_000;
/// Jobs that are deleted in the transaction. The others leave the conversation at once, and are deleted by
/// the sweeper ([`crate::store::postgres::conversations::removal`]).
const FORGOTTEN: usize = 100;

impl Act<'_> {
    /// Replaces an answer and what follows it by a new job with the same question, or with another one. A
    /// known key is looked for first: the answer that its first request replaced is gone.
    pub(crate) async fn regenerate_answer(
        &mut self,
        user: UserId,
        id: &ConversationId,
        request: &RegenerateRequest,
    ) -> Result<Option<Idempotent<Job>>, ConversationError> {
        let Some(key) = &request.key else {
            return Ok(self.replace_answer(user, id, request).await?.map(Idempotent::New));
        };
        if let Some(job) = self.replayed_job(user, key).await? {
            return Ok(Some(Idempotent::Replayed(job)));
        }
        let Some(job) = self.replace_answer(user, id, request).await? else { return Ok(None) };
        self.remember(user, key, WebhookSubject::Job(job.id)).await?;
        Ok(Some(Idempotent::New(job)))
    }

    /// Replaces an answer. Errors, and `None` without such an answer, come before the first write.
    async fn replace_answer(
        &mut self,
        user: UserId,
        id: &ConversationId,
        request: &RegenerateRequest,
    ) -> Result<Option<Job>, ConversationError> {
        let RegenerateRequest { answer, job: new, replaces_question, .. } = request;
        let Some(found) = self.find_conversation(user, id).await? else {
            return Err(ConversationError::NoConversation);
        };
        let range = ConversationRange::of(&found);
        let found = find_message(&self.session, range, MessageRef::Answer(*answer)).await?;
        let Some((accept, old)) = found.filter(|(_, pair)| pair.shows_answer) else { return Ok(None) };
        if !old.shows_question && !replaces_question {
            return Err(ConversationError::NoQuestion);
        }
        if let Some(status) = self.unfinished_status(range, accept).await? {
            return Err(ConversationError::WrongState { status });
        }
        let tail = self.pairs_from(range, accept, TAIL.saturating_add(2)).await?;
        let added = self.added_from(range, (accept, u64::MAX), TAIL.saturating_add(1)).await?;
        if tail.len() > TAIL.saturating_add(1) || added.len() > TAIL {
            return Err(ConversationError::TooLate { limit: TAIL });
        }
        self.check_queue_limit(1, |limit| ConversationError::QueueFull { limit }).await?;
        self.admit_work::<ConversationError>(user, NewWork::job(spec_bytes(&new.spec))).await?;
        let spec = JobSpec { conversation_id: Some(id.clone()), ..new.spec.clone() };
        let spec = if *replaces_question { spec } else { spec.answering_again(self.spec(old.job).await?) };
        self.drop_summary(range, accept).await?;
        self.forget_added(&added).await?;
        self.replace_tail(range, &tail).await?;
        let job = Job::queued(new.id, user, new.created_at_ms, &spec);
        let pair = if *replaces_question {
            MessagePair::of(&job)
        } else {
            MessagePair { job: new.id, shows_answer: true, ..old }
        };
        Ok(Some(self.accept_as(job, &spec, &pair).await?))
    }

    /// Numbers and jobs of a conversation's pairs from this number on, at most `limit`.
    async fn pairs_from(
        &self,
        range: ConversationRange<'_>,
        accept: u64,
        limit: usize,
    ) -> Result<Vec<(u64, JobId)>, StoreError> {
        let sql = "SELECT accept, job FROM message_pairs WHERE user_id = $1 AND conversation = $2 AND accept >= $3 \
                   ORDER BY accept LIMIT $4";
        let (user, id, _) = range.params();
        let params = (sql_number(accept.max(range.floor)), sql_number(limit));
        let found = self.session.rows(sql, &[&user, &id, &params.0, &params.1]).await?;
        found.iter().map(|row| Ok((row.number(0)?, row.parsed(1)?))).collect()
    }

    /// Removes these pairs from their conversation, in order.
    async fn replace_tail(
        &mut self,
        range: ConversationRange<'_>,
        tail: &[(u64, JobId)],
    ) -> Result<(), StoreError> {
        self.flush().await?;
        let (few, rest) = tail.split_at(tail.len().min(FORGOTTEN));
        self.clear_pairs((range.user, range.id), few).await?;
        let Some((first, _)) = rest.first() else { return Ok(()) };
        let first = sql_number(*first);
        // The sweeper removes them. Users and models do not see them any more.
        let sql = "WITH turn AS (DELETE FROM turns WHERE user_id = $1 AND conversation = $2 AND accept >= $3 \
                     RETURNING octet_length(messages::text) AS bytes), \
                   pair AS (UPDATE message_pairs p SET shows_question = false, shows_answer = false \
                     FROM message_pairs old WHERE p.user_id = $1 AND p.conversation = $2 AND p.accept >= $3 \
                     AND old.user_id = p.user_id AND old.conversation = p.conversation AND old.accept = p.accept \
                     RETURNING old.shows_question::int + old.shows_answer::int AS shown), \
                   counted AS (UPDATE conversations SET message_count = greatest(message_count - \
                     (SELECT coalesce(sum(shown), 0) FROM pair), 0) WHERE user_id = $1 AND id = $2), \
                   removed AS (INSERT INTO removed_conversations (user_id, conversation, first_accept, last_accept) \
                     SELECT $1, $2, $3, last_value FROM accept_numbers \
                     ON CONFLICT (user_id, conversation, last_accept) DO UPDATE SET first_accept = \
                     least(removed_conversations.first_accept, $3)) \
                   SELECT coalesce(sum(bytes), 0)::bigint FROM turn";
        let (user, id, _) = range.params();
        let freed: i64 = self.session.one(sql, &[&user, &id, &first]).await?.column(0)?;
        self.count_bytes(range.user, freed.saturating_neg());
        Ok(())
    }

    /// The state of a job of the conversation, or of a background job accepted from `accept` on, that has not
    /// ended. Jobs of an earlier conversation with this name do not count.
    async fn unfinished_status(
        &self,
        range: ConversationRange<'_>,
        accept: u64,
    ) -> Result<Option<JobStatus>, StoreError> {
        let sql = "SELECT status FROM jobs WHERE user_id = $1 AND conversation = $2 AND accept >= $3 \
                   AND (accept >= $4 OR NOT is_background) AND status IN ('queued', 'running', 'waiting') \
                   ORDER BY is_background, accept LIMIT 1";
        let (user, id, floor) = range.params();
        let found = self.session.row(sql, &[&user, &id, &floor, &sql_number(accept)]).await?;
        let status = found.map(|row| row.column::<String>(0)).transpose()?;
        Ok(status.and_then(|name| JobStatus::ALL.iter().copied().find(|status| status.as_str() == name)))
    }
}
