//! The jobs of a conversation that have not ended. Owns nothing but the look at their line.

use super::keys::{JobBytes, TurnBytes, TurnKey};
use super::table::ReadableTable;
use crate::domain::id::JobId;
use crate::ports::StoreError;

/// Them, in their order; of a conversation of this name that was removed as well. `member` is any key of the conversation.
pub(super) fn unfinished(
    lines: &impl ReadableTable<&'static TurnBytes, &'static JobBytes>,
    member: &TurnBytes,
) -> Result<Vec<JobId>, StoreError> {
    let (first, last) = TurnKey::line_of(member);
    let line = lines.range::<&TurnBytes>(&first..=&last)?;
    line.map(|entry| Ok(JobId::from_bytes(*entry?.1.value()))).collect()
}
