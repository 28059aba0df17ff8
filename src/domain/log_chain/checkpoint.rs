//! Signed checkpoints: the heads of all jobs that ended between two times, each chained to the one before. A
//! job that is in a checkpoint cannot lose or change its head unnoticed.

use super::super::hex::{hex, hex_bytes};
use super::super::id::JobId;
use super::super::stored_file::ContentDigest;
use super::key::{LogPublicKey, LogSignature, LogSigningKey};
use super::link::ChainLink;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

/// The jobs of a checkpoint with their heads, by id. Stored as 96 hexadecimal digits a job: 16
/// bytes of its id, and its head.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CheckpointJobs(Vec<(JobId, ChainLink)>);

/// A checkpoint without its jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogCheckpoint {
    /// From 1, without a gap.
    pub number: u64,
    /// Unix milliseconds.
    pub made_at_ms: u64,
    /// It covers jobs that ended after this time, unix milliseconds …
    pub after_ms: u64,
    /// … and not after this one.
    pub through_ms: u64,
    /// How many jobs it covers.
    pub jobs: u64,
    /// SHA-256 of its jobs.
    pub digest: ContentDigest,
    /// SHA-256 of the checkpoint before; of the first one, of nothing.
    pub previous: ContentDigest,
    /// The server's signature.
    pub signature: LogSignature,
}

/// A checkpoint as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredCheckpoint {
    /// The signed part.
    pub checkpoint: LogCheckpoint,
    /// The jobs that it covers.
    pub heads: CheckpointJobs,
}

/// Why a checkpoint proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointFault {
    /// One is missing before it, or was changed.
    #[error("checkpoint {0} does not follow the one before: that one was changed or removed")]
    Unchained(u64),
    /// Another key has signed it, or nobody.
    #[error("checkpoint {0} was not signed by this server's key")]
    Unsigned(u64),
    /// Its jobs are not those that were signed.
    #[error("the list of jobs of checkpoint {0} was changed")]
    OtherJobs(u64),
}

impl CheckpointJobs {
    /// These jobs, in any order.
    pub fn new(mut jobs: Vec<(JobId, ChainLink)>) -> Self {
        jobs.sort_unstable_by_key(|(job, _)| *job);
        Self(jobs)
    }

    /// Each job with its head.
    pub fn iter(&self) -> impl Iterator<Item = (JobId, ChainLink)> + '_ {
        self.0.iter().copied()
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|(job, head)| job.to_bytes().into_iter().chain(head.to_bytes())).collect()
    }
}

impl TryFrom<String> for CheckpointJobs {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let entry = |digits: &[u8]| {
            let bytes: [u8; 48] = hex_bytes(std::str::from_utf8(digits).ok()?)?;
            let (job, head) = (bytes.first_chunk().copied()?, bytes.last_chunk().copied()?);
            Some((JobId::from_bytes(job), ChainLink::from_bytes(head)))
        };
        let entries: Option<Vec<_>> = text.as_bytes().chunks(96).map(entry).collect();
        entries
            .map(Self)
            .ok_or_else(|| "a list of jobs has 96 lower-case hexadecimal digits a job".to_owned())
    }
}

impl From<CheckpointJobs> for String {
    fn from(jobs: CheckpointJobs) -> Self {
        hex(&jobs.bytes())
    }
}

impl StoredCheckpoint {
    /// A checkpoint of these jobs, which ended after the one before and not after `through_ms`.
    pub fn new(
        before: Option<&LogCheckpoint>,
        heads: CheckpointJobs,
        (made_at_ms, through_ms): (u64, u64),
        key: &LogSigningKey,
    ) -> Self {
        let mut checkpoint = LogCheckpoint {
            number: before.map_or(1, |before| before.number.saturating_add(1)),
            made_at_ms,
            after_ms: before.map_or(0, |before| before.through_ms),
            through_ms,
            jobs: heads.0.len() as u64,
            digest: sha256(&heads.bytes()),
            previous: before.map_or_else(|| sha256(b""), LogCheckpoint::identity),
            signature: LogSignature([0; 64]),
        };
        checkpoint.signature = key.sign(&checkpoint.message());
        Self { checkpoint, heads }
    }

    /// Checks the signature, the list of jobs, and that it follows the one before.
    pub fn verify(
        &self,
        before: Option<&LogCheckpoint>,
        keys: &[LogPublicKey],
    ) -> Result<(), CheckpointFault> {
        let Self { checkpoint, heads } = self;
        let number = before.map_or(1, |before| before.number.saturating_add(1));
        let previous = before.map_or_else(|| sha256(b""), LogCheckpoint::identity);
        if (checkpoint.number, checkpoint.previous) != (number, previous) {
            return Err(CheckpointFault::Unchained(checkpoint.number));
        }
        if !keys.is_empty() && !keys.iter().any(|key| checkpoint.is_signed_by(key)) {
            return Err(CheckpointFault::Unsigned(checkpoint.number));
        }
        if checkpoint.digest != sha256(&heads.bytes()) {
            return Err(CheckpointFault::OtherJobs(checkpoint.number));
        }
        Ok(())
    }
}

impl LogCheckpoint {
    /// Whether the server with this key has made it.
    pub fn is_signed_by(&self, key: &LogPublicKey) -> bool {
        key.has_signed(&self.message(), &self.signature)
    }

    /// The message that the server signs.
    fn message(&self) -> Vec<u8> {
        let Self { number, made_at_ms, after_ms, through_ms, jobs, digest, previous, signature: _ } = self;
        let mut message = b"nanoclaw checkpoint 1\0".to_vec();
        for part in [number, made_at_ms, after_ms, through_ms, jobs] {
            message.extend(part.to_be_bytes());
        }
        message.extend(digest.to_bytes());
        message.extend(previous.to_bytes());
        message
    }

    /// What the next one names as the one before: its message and its signature.
    fn identity(&self) -> ContentDigest {
        sha256(&[self.message(), self.signature.0.to_vec()].concat())
    }
}

fn sha256(bytes: &[u8]) -> ContentDigest {
    let mut hash = [0; 32];
    hash.iter_mut().zip(digest(&SHA256, bytes).as_ref()).for_each(|(byte, of_digest)| *byte = *of_digest);
    ContentDigest::from_bytes(hash)
}
