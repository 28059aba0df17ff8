//! Ids of traces and spans. Those of a job follow from it, so that a repeated export has the same ones.

use super::id::JobId;
use super::log_chain::RecordPlace;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The id of a trace: 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TraceId(u128);

/// The id of a span: 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpanId(u64);

impl TraceId {
    /// The trace of a job.
    pub fn of(job: JobId) -> Self {
        Self(u128::from_be_bytes(hashed(&[b"nanoclaw trace\0", &job.to_bytes()])))
    }
}

impl SpanId {
    /// The place of no record: that of the root.
    const ROOT: RecordPlace = RecordPlace { seq: 0, sub: 0 };

    /// The span that ends, or begins, with this record of a job.
    pub fn of(job: JobId, place: RecordPlace) -> Self {
        Self::hashed(b"nanoclaw span\0", job, place)
    }

    /// The span of a sub-agent, whose first timed record of a job this is.
    pub fn of_agent(job: JobId, first: RecordPlace) -> Self {
        Self::hashed(b"nanoclaw agent\0", job, first)
    }

    fn hashed(kind: &[u8], job: JobId, RecordPlace { seq, sub }: RecordPlace) -> Self {
        let parts = [kind, &job.to_bytes()[..], &seq.to_be_bytes(), &sub.to_be_bytes()];
        Self(u64::from_be_bytes(hashed(&parts)))
    }

    /// The root of a job.
    pub fn root(job: JobId) -> Self {
        Self::of(job, Self::ROOT)
    }
}

/// The first bytes of the SHA-256 of the parts.
fn hashed<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let hash = digest(&SHA256, &parts.concat());
    hash.as_ref().first_chunk().copied().unwrap_or([0; N])
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The span of a client that has caused a job: `traceparent` of W3C Trace Context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceParent {
    /// The client's trace.
    pub trace: TraceId,
    /// The span above.
    pub span: SpanId,
}

/// A text that is no `traceparent`, or that of a trace which its client does not record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no traceparent of a recorded trace")]
pub struct NoTraceParent;

impl FromStr for TraceParent {
    type Err = NoTraceParent;

    /// Later versions may have more fields.
    fn from_str(text: &str) -> Result<Self, NoTraceParent> {
        let mut fields = text.split('-');
        let mut field = |digits: usize| {
            let is_hex = |text: &&str| {
                text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
            };
            fields.next().filter(is_hex).ok_or(NoTraceParent)
        };
        let (version, trace, span, flags) = (field(2)?, field(32)?, field(16)?, field(2)?);
        let has_more = fields.next().is_some();
        let trace = u128::from_str_radix(trace, 16).map_err(|_| NoTraceParent)?;
        let span = u64::from_str_radix(span, 16).map_err(|_| NoTraceParent)?;
        let is_recorded = u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1);
        let is_valid = version != "ff" && (version != "00" || !has_more) && trace != 0 && span != 0;
        if !is_valid || !is_recorded {
            return Err(NoTraceParent);
        }
        Ok(Self { trace: TraceId(trace), span: SpanId(span) })
    }
}

impl TryFrom<String> for TraceParent {
    type Error = NoTraceParent;

    fn try_from(text: String) -> Result<Self, NoTraceParent> {
        text.parse()
    }
}

impl From<TraceParent> for String {
    fn from(TraceParent { trace, span }: TraceParent) -> Self {
        format!("00-{trace}-{span}-01")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    #[test]
    fn a_traceparent_is_read_as_the_recommendation_has_it() {
        for (text, is_read) in [
            (format!("00-{TRACE}-{SPAN}-01"), true),
            (format!("00-{TRACE}-{SPAN}-03"), true),
            (format!("cc-{TRACE}-{SPAN}-01-more"), true),
            (format!("00-{TRACE}-{SPAN}-00"), false),
            (format!("00-{TRACE}-{SPAN}-01-more"), false),
            (format!("ff-{TRACE}-{SPAN}-01"), false),
            (format!("00-{}-{SPAN}-01", TRACE.to_uppercase()), false),
            (format!("00-{}-{SPAN}-01", "0".repeat(32)), false),
            (format!("00-{TRACE}-{}-01", "0".repeat(16)), false),
            (format!("00-+{}-{SPAN}-01", &TRACE[1..]), false),
            (format!("00-{TRACE}-{SPAN}"), false),
            (String::new(), false),
        ] {
            let read = text.parse::<TraceParent>();
            assert_eq!(read.is_ok(), is_read, "{text}");
            if let Ok(read) = read {
                assert_eq!(String::from(read), format!("00-{TRACE}-{SPAN}-01"));
            }
        }
    }

    #[test]
    fn the_ids_of_a_job_never_change() {
        let job = JobId::from_bits(7);
        assert_eq!(TraceId::of(job).to_string(), "897c5fdc892f16c6cddcb7ea34871af5");
        assert_eq!(SpanId::root(job).to_string(), "60acf9b5250f241b");
        assert_ne!(SpanId::of(job, RecordPlace::FIRST), SpanId::root(job));
    }
}
