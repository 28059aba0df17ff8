//! A page of a batch's results, which all followers at the same line share.

use crate::http::shared_pages::SharedPage;
use bytes::Bytes;

/// A page ends after this many bytes; a single result may be larger.
pub(crate) const PAGE_BYTES: usize = 64 * 1024;

/// Lines of results, as all followers of a batch get them.
#[derive(Debug, Clone)]
pub(crate) struct BatchResultPage {
    pub(crate) text: Bytes,
    /// Where the next page starts.
    pub(crate) next: u32,
    pub(crate) is_last: bool,
    /// The newest change of the batch that its reader had heard of.
    pub(crate) seen: u64,
}

impl SharedPage for BatchResultPage {
    const MOST_BYTES: usize = 2 * PAGE_BYTES;
    type Position = u32;

    fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Lines stay as they are. Others may follow, also behind the last one: a failed line can be retried.
    fn lacks(&self, newest: u64) -> bool {
        (self.text.is_empty() || self.is_last) && self.seen < newest
    }
}
