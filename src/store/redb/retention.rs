//! What becomes of jobs that have ended. Owns the stages in which they shrink; refuses to touch a job that has not ended.

/// Stage of a job of which nothing was taken yet. These bytes are on disk.
pub(super) const WHOLE: u8 = 0;
