//! Links, and the places of records. The bytes that are hashed never change: stored chains depend on them.

use super::super::hex::{hex, hex_bytes};
use super::super::id::JobId;
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Where a record is in the log of its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RecordPlace {
    /// The number of the event, or of the event before the mark.
    pub seq: u64,
    /// 0: an event; otherwise the number of the mark after it.
    pub sub: u32,
}

impl RecordPlace {
    /// Before the first place of a log.
    pub const BEFORE_FIRST: Self = Self { seq: 0, sub: 0 };

    /// The first place of a log.
    pub const FIRST: Self = Self { seq: 1, sub: 0 };

    /// The place of an event.
    pub fn event(seq: u64) -> Self {
        Self { seq, sub: 0 }
    }

    /// Whether `next` may stand right behind this place.
    pub(super) fn is_followed_by(self, next: Self) -> bool {
        next == self.next_mark() || next == self.next_event()
    }

    /// The place of the next event.
    #[must_use]
    pub fn next_event(self) -> Self {
        Self { seq: self.seq.saturating_add(1), sub: 0 }
    }

    /// The place of the next mark.
    #[must_use]
    pub fn next_mark(self) -> Self {
        Self { sub: self.sub.saturating_add(1), ..self }
    }
}

impl fmt::Display for RecordPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sub {
            0 => write!(f, "event {}", self.seq),
            sub => write!(f, "mark {sub} after event {}", self.seq),
        }
    }
}

/// A link of the chain; as text 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ChainLink([u8; Self::BYTES]);

impl ChainLink {
    /// Length, bytes.
    pub const BYTES: usize = 32;

    /// The link before the first record of a job's log.
    pub fn start(job: JobId) -> Self {
        let mut hash = Context::new(&SHA256);
        hash.update(b"nanoclaw log 1\0");
        hash.update(&job.to_bytes());
        Self::finish(hash)
    }

    /// The link of the record at this place whose stored JSON has these bytes.
    #[must_use]
    pub fn after(self, place: RecordPlace, body: &[u8]) -> Self {
        let mut hash = Context::new(&SHA256);
        hash.update(&self.0);
        hash.update(&place.seq.to_be_bytes());
        hash.update(&place.sub.to_be_bytes());
        hash.update(body);
        Self::finish(hash)
    }

    /// The link with these bytes.
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0
    }

    fn finish(hash: Context) -> Self {
        let digest = hash.finish();
        let mut bytes = [0; Self::BYTES];
        bytes.iter_mut().zip(digest.as_ref()).for_each(|(byte, of_digest)| *byte = *of_digest);
        Self(bytes)
    }
}

impl fmt::Display for ChainLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for ChainLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ChainLink {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        hex_bytes(text).map(Self).ok_or("must be 64 lower-case hexadecimal digits")
    }
}

impl TryFrom<String> for ChainLink {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ChainLink> for String {
    fn from(link: ChainLink) -> Self {
        link.to_string()
    }
}

#[cfg(test)]
impl schemars::JsonSchema for ChainLink {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "LogHead".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "pattern": "^[0-9a-f]{64}$"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_links_of_a_log_never_change() {
        // Stored chains depend on them. Computed with Python's hashlib.sha256.
        let start = ChainLink::start(JobId::from_bits(0));
        assert_eq!(start.to_string(), START);
        assert_eq!(start.after(RecordPlace::FIRST, b"{}").to_string(), FIRST);
    }

    const START: &str = "a9953c88967e0815027da784a5cab651b3b951d3d1144cfecef11b69bf4d2bd1";
    const FIRST: &str = "47649dec720ecc77535ade8904aec9161386d53e3b8014685d7cad2dccdf27c1";

    #[test]
    fn a_link_is_read_from_its_own_text_only() {
        let link = ChainLink::start(JobId::from_bits(7));
        assert_eq!(link.to_string().parse(), Ok(link));
        for wrong in ["", "ab", &link.to_string().to_uppercase(), &format!("{link}0"), &"é".repeat(32)] {
            assert!(wrong.parse::<ChainLink>().is_err(), "{wrong}");
        }
    }
}
