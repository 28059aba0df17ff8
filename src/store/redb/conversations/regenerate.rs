//! Answers a question again: a new job with the same input, or with another question, replaces the old answer
//! and everything after it. One transaction, so that no crash leaves a question without an answer.

use crate::domain::id::{ConversationId, UserId};
use crate::domain::job::{Job, JobSpec};
use crate::domain::webhook::WebhookSubject;
use crate::ports::{ConversationError, Idempotent, MessageRef, NewWork, RegenerateRequest, StoreError};
use crate::store::redb::codec::keys::conversations::{TurnBytes, conversation_key};
use crate::store::redb::conversations::message_pair::ConversationRange;
use crate::store::redb::queue::conversation_queue::unfinished;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::conversation::MessagePair;
use crate::store::rows::weight::spec_bytes;

/// Maximum number of pairs after the answer.
const TAIL: usize = 1_000;
/// Jobs that are deleted in the transaction. The others leave the conversation at once, and are deleted when
/// the store is idle ([`crate::store::redb::conversations::removed_jobs`]).
const FORGOTTEN: usize = 100;

impl Transaction<'_> {
    /// Replaces an answer and what follows it by a new job with the same question, or with another one. A
    /// known key is looked for first: the answer that its first request replaced is gone.
    pub(crate) fn regenerate_answer(
        &mut self,
        user: UserId,
        id: &ConversationId,
        request: &RegenerateRequest,
    ) -> Result<Option<Idempotent<Job>>, ConversationError> {
        let Some(key) = &request.key else {
            return Ok(self.replace_answer(user, id, request)?.map(Idempotent::New));
        };
        if let Some(job) = self.replayed_job(user, key)? {
            return Ok(Some(Idempotent::Replayed(job)));
        }
        let Some(job) = self.replace_answer(user, id, request)? else { return Ok(None) };
        self.remember(user, key, WebhookSubject::Job(job.id))?;
        Ok(Some(Idempotent::New(job)))
    }

    fn replace_answer(
        &mut self,
        user: UserId,
        id: &ConversationId,
        request: &RegenerateRequest,
    ) -> Result<Option<Job>, ConversationError> {
        let RegenerateRequest { answer, job: new, replaces_question, .. } = request;
        let Some(found) = self.find_conversation(user, id)? else {
            return Err(ConversationError::NoConversation);
        };
        let range = ConversationRange::of(&found);
        let (jobs, message_pairs) = (&self.tables.jobs, &self.tables.message_pairs);
        let found = range.find(jobs, message_pairs, MessageRef::Answer(*answer))?;
        let Some((accept, old)) = found.filter(|(_, message_pair)| message_pair.shows_answer) else {
            return Ok(None);
        };
        if !old.shows_question && !replaces_question {
            return Err(ConversationError::NoQuestion);
        }
        self.refuse_unfinished(range, accept)?;
        let tail = self.pairs_from(range, accept, TAIL.saturating_add(2))?;
        let added = self.added_from(range, (accept, u64::MAX), TAIL.saturating_add(1))?;
        if tail.len() > TAIL.saturating_add(1) || added.len() > TAIL {
            return Err(ConversationError::TooLate { limit: TAIL });
        }
        self.check_queue_limit(1, |limit| ConversationError::QueueFull { limit })?;
        self.admit_rows::<ConversationError>(user, NewWork::job(spec_bytes(&new.spec)))?;
        let spec = JobSpec { conversation_id: Some(id.clone()), ..new.spec.clone() };
        let spec = if *replaces_question { spec } else { spec.answering_again(self.spec(old.job)?) };
        self.drop_summary(range, accept)?;
        self.clear_added(range, (accept, u64::MAX), TAIL)?;
        self.replace_tail(range, &tail)?;
        let job = Job::queued(new.id, user, new.created_at_ms, &spec);
        let message_pair = if *replaces_question {
            MessagePair::of(&job)
        } else {
            MessagePair { job: new.id, shows_answer: true, ..old }
        };
        Ok(Some(self.accept_as(job, &spec, &message_pair)?))
    }

    /// Removes these pairs from their conversation, in order.
    fn replace_tail(&mut self, range: ConversationRange<'_>, tail: &[u64]) -> Result<(), StoreError> {
        let (few, rest) = tail.split_at(tail.len().min(FORGOTTEN));
        for accept in few {
            self.clear_pair(range, *accept)?;
        }
        let Some(first) = rest.first() else { return Ok(()) };
        let mut count = 0_u64;
        for accept in rest {
            count = count.saturating_add(self.hide_pair(&range.key(*accept))?);
        }
        if let Some(mut found) = self.find_conversation(range.user, range.id)? {
            let messages = &mut found.conversation.message_count;
            *messages = messages.saturating_sub(count);
            self.put_conversation(&found)?;
        }
        self.remove_later(range, *first)
    }

    /// Hides the pair from users and models; returns how many messages it had.
    fn hide_pair(&mut self, key: &TurnBytes) -> Result<u64, StoreError> {
        let turn = self.tables.turns.remove(key)?.map_or(0, |bytes| bytes.value().len());
        self.count_freed(turn);
        // An unreadable pair is hidden already.
        let Some(shown) = self.message_pair(key)? else { return Ok(0) };
        self.put_pair(key, &MessagePair { shows_question: false, shows_answer: false, ..shown })?;
        Ok(shown.count(true))
    }

    /// Refuses while a job of the conversation, or a background job accepted after `accept`, has not ended.
    /// Jobs of an earlier conversation with this name do not count.
    fn refuse_unfinished(&self, range: ConversationRange<'_>, accept: u64) -> Result<(), ConversationError> {
        let in_turn = unfinished(&self.tables.conversation_queue, &conversation_key(range.user, range.id))?;
        let background_jobs = self.background_jobs_of(range.user, range.id)?;
        let from = |first: u64| move |job| (job, first.max(range.floor));
        for (job, first) in
            in_turn.into_iter().map(from(0)).chain(background_jobs.into_iter().map(from(accept)))
        {
            match self.find_row(job) {
                Ok(Some(row)) if row.accept >= first => {
                    return Err(ConversationError::WrongState { status: row.job.status });
                }
                Ok(_) | Err(StoreError::Corrupt(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
