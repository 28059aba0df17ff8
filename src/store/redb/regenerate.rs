//! Answering a question again: the old answer, and whatever came after it, gives way to a new job that is asked the same.
//! One transaction, so that no crash leaves a question without either answer. Refuses while a job of the conversation has
//! not ended, and other users' (P7).

use super::act::{Act, SMALL};
use super::conversation_keys::conversation_key;
use super::exchange::{Exchange, Line};
use super::submit::spec_bytes;
use super::transaction::Transaction;
use crate::domain::id::{ConversationId, JobId, UserId};
use crate::domain::job::{Job, JobSpec};
use crate::ports::{Again, MessageRef, StoreError};

/// This answer of this conversation.
pub(super) struct Regenerate {
    pub(super) user: UserId,
    pub(super) id: ConversationId,
    pub(super) again: Again,
}

impl Act for Regenerate {
    type Out = Option<Job>;

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<Option<Job>, StoreError> {
        let Again { answer, job: new } = &self.again;
        let Some(found) = transaction.find_conversation(self.user, &self.id)? else {
            return Err(StoreError::NoConversation);
        };
        let line = Line::of(&found);
        let (jobs, exchanges) = (&transaction.tables.jobs, &transaction.tables.exchanges);
        let place = line.find(jobs, exchanges, MessageRef::Answer(*answer))?;
        let Some((accept, old)) = place.filter(|(_, exchange)| exchange.shows_answer) else {
            return Ok(None);
        };
        transaction.refuse_unfinished(line)?;
        transaction.make_room(1)?;
        let asked = transaction.spec(old.job)?.input;
        transaction.drop_summary(line, accept)?;
        for accept in transaction.exchanges_from(line, accept, usize::MAX)? {
            transaction.clear_exchange(line, accept)?;
        }
        let conversation_id = Some(self.id.clone());
        let spec = JobSpec { input: asked, conversation_id, ..new.spec.clone() };
        let job = Job::queued(new.id, self.user, new.created_at_ms, &spec);
        let exchange = Exchange { job: new.id, shows_answer: true, ..old };
        transaction.accept_as(job, &spec, &exchange).map(Some)
    }

    fn jobs(&self) -> Vec<JobId> {
        vec![self.again.job.id]
    }

    fn weight(&self) -> usize {
        spec_bytes(&self.again.job.spec).saturating_add(SMALL)
    }
}

impl Transaction<'_> {
    /// Refuses while a job of the conversation has not ended. One that was cancelled with an earlier conversation of this
    /// name is none of its jobs.
    fn refuse_unfinished(&self, line: Line<'_>) -> Result<(), StoreError> {
        for job in self.unfinished_of(&conversation_key(line.user, line.id))? {
            match self.find_row(job) {
                Ok(Some(row)) if row.accept >= line.floor => {
                    return Err(StoreError::WrongState { status: row.job.status });
                }
                Ok(_) | Err(StoreError::Corrupt(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
