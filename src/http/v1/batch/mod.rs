//! `/v1/batches` (DESIGN §3), one file per act. Owns the two line formats and the order of checks; refuses to hold a batch
//! in memory: lines go to the store as they come, and come out of it page by page.

pub(crate) mod cancel;
mod jsonl;
mod line;
mod openai;
pub(crate) mod results;
pub(crate) mod show;
pub(crate) mod upload;

use crate::domain::id::BatchId;
use crate::http::error::Error;

/// The batch's id as a path spells it; a malformed one names no batch.
fn parse_id(text: &str) -> Result<BatchId, Error> {
    text.parse().map_err(|_| Error::NotFound("batch"))
}
