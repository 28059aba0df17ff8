//! Notes about folds: what retention has removed from a log or joined, signed, so that the chain goes on
//! behind it.

use super::super::id::JobId;
use super::key::{LogPublicKey, LogSignature};
use super::link::{ChainLink, RecordPlace};
use serde::{Deserialize, Serialize};

/// What was done to the records.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FoldKind {
    /// The deltas of each step were joined, and marks that nobody needs any more were removed.
    Deltas,
    /// All records but the terminal event were removed.
    Cut,
}

/// A note about a fold. It covers the log from its start to the record before the terminal event, and
/// replaces an earlier note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoldNote {
    /// What was done.
    pub kind: FoldKind,
    /// The first record that it covers, as the log was.
    pub from: RecordPlace,
    /// The last one.
    pub to: RecordPlace,
    /// The link before the first of them.
    pub before: ChainLink,
    /// The link of the last of them, as the log was: the next record follows it.
    pub after: ChainLink,
    /// The link of the last record that is left of them, in a chain of what is left; `before` if none is.
    pub left: ChainLink,
    /// When, unix milliseconds.
    pub at_ms: u64,
    /// The server's signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<LogSignature>,
}

impl FoldNote {
    /// A note that nobody has signed yet.
    pub fn new(
        kind: FoldKind,
        job: JobId,
        (to, after): (RecordPlace, ChainLink),
        left: ChainLink,
        at_ms: u64,
    ) -> Self {
        let (from, before) = (RecordPlace::FIRST, ChainLink::start(job));
        Self { kind, from, to, before, after, left, at_ms, signature: None }
    }

    /// The message that the server signs. The start of the chain names the job.
    pub fn message(&self) -> Vec<u8> {
        let Self { kind, from, to, before, after, left, at_ms, signature: _ } = self;
        let kind = match kind {
            FoldKind::Deltas => 1,
            FoldKind::Cut => 2,
        };
        let mut message = b"nanoclaw fold 1\0".to_vec();
        message.push(kind);
        for place in [from, to] {
            message.extend(place.seq.to_be_bytes());
            message.extend(place.sub.to_be_bytes());
        }
        for link in [before, after, left] {
            message.extend(link.to_bytes());
        }
        message.extend(at_ms.to_be_bytes());
        message
    }

    /// The note with this signature.
    #[must_use]
    pub fn signed(self, signature: LogSignature) -> Self {
        Self { signature: Some(signature), ..self }
    }

    /// Whether this key has signed it.
    pub fn is_signed_by(&self, key: &LogPublicKey) -> bool {
        self.signature.is_some_and(|signature| key.has_signed(&self.message(), &signature))
    }
}

/// What a fold leaves of the log before the terminal event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldedLog {
    /// The new links of the records that are left.
    pub links: Vec<(RecordPlace, ChainLink)>,
    /// The note, without a signature.
    pub note: FoldNote,
}
