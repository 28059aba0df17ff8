//! The row of a job as a part of its conversation.

use crate::domain::id::JobId;
use crate::domain::job::Job;
use crate::ports::StoreError;
use crate::store::redb::codec::keys::conversations::{TurnBytes, TurnKey};
use crate::store::redb::codec::keys::jobs::JobBytes;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::rows::job::JobRow;

impl JobRow {
    /// Its position in its conversation, if it has one.
    pub(crate) fn turn_key(&self) -> Option<TurnKey<'_>> {
        let conversation = self.job.conversation_id.as_ref()?;
        Some(TurnKey { user: self.job.user, conversation, accept: self.accept })
    }
}

/// The job as its owner sees it. `lines`: the jobs of conversations, in order.
pub(crate) fn shown(
    row: JobRow,
    now_ms: u64,
    lines: &impl ReadableTable<&'static TurnBytes, &'static JobBytes>,
) -> Result<Job, StoreError> {
    row.into_shown(now_ms, |row| match row.turn_key().map(TurnKey::encode) {
        Some(key) => job_before(lines, &key),
        None => Ok(None),
    })
}

/// The job of a conversation just before this position, if it has not ended.
fn job_before(
    lines: &impl ReadableTable<&'static TurnBytes, &'static JobBytes>,
    key: &TurnBytes,
) -> Result<Option<JobId>, StoreError> {
    let (first, _) = TurnKey::conversation_range(key);
    let before = lines.range::<&TurnBytes>(&first..key)?.next_back().transpose()?;
    Ok(before.map(|(_, job)| JobId::from_bytes(*job.value())))
}
