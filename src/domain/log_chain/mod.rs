//! The hash chain of a job's log. Each record is stored with a link: SHA-256 of the link before it, of its
//! place and of its stored bytes. The link of the terminal event is the head of the log: a person who has it
//! can prove each record. A fold note replaces the records that retention has removed or joined.

mod checkpoint;
mod fold_note;
mod key;
mod link;
mod record;
mod verify;

pub use checkpoint::{CheckpointFault, CheckpointJobs, LogCheckpoint, StoredCheckpoint};
pub use fold_note::{FoldKind, FoldNote, FoldedLog};
pub use key::{LogPublicKey, LogSignature, LogSigningKey};
pub use link::{ChainLink, RecordPlace};
pub use record::LogRecord;
pub use verify::{ChainFault, ChainVerdict, LogChain};

#[cfg(test)]
mod tests;
