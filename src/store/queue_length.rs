//! How many jobs there are to do.

/// The length of the queue as of a commit.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct QueueLength {
    /// Ready jobs.
    pub(crate) ready: u64,
    /// When the next delayed job is due, unix milliseconds.
    pub(crate) due_ms: Option<u64>,
    /// Jobs that have not ended.
    pub(crate) unfinished: u64,
}
