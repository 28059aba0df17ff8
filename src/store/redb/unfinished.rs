//! The jobs of a conversation that have not ended, for whoever wants them to. Owns nothing but the look at their line.

use super::keys::{TurnBytes, TurnKey};
use super::schema::LINES;
use crate::domain::id::{ConversationId, JobId, UserId};
use crate::ports::StoreError;
use redb::ReadTransaction;

/// Them, newest first.
pub(super) fn unfinished(
    reading: &ReadTransaction,
    user: UserId,
    conversation: &ConversationId,
) -> Result<Vec<JobId>, StoreError> {
    let key = |accept| TurnKey { user, conversation, accept }.encode();
    let line = reading.open_table(LINES)?;
    let jobs = line.range::<&TurnBytes>(&key(0)..=&key(u64::MAX))?.rev();
    jobs.map(|entry| Ok(JobId::from_bytes(*entry?.1.value()))).collect()
}
