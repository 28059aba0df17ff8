//! Ids of calls that are handed to a client. They name the job, so that its next request finds what the model
//! did before: reasoning, and the calls of the server's own tools, which the client never sees.

use super::id::JobId;
use std::fmt;
use std::str::FromStr;

const PREFIX: &str = "call_";

/// A call of a client's function: the job that made it, and its place among the job's calls of this kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientCallId {
    /// The job.
    pub job: JobId,
    /// From 0.
    pub place: u32,
    /// Calls that were streamed before it and broke off. Clients keep those, too, so their ids are taken.
    pub broken_off: u32,
}

impl ClientCallId {
    /// The id of a call before which none broke off.
    pub fn new(job: JobId, place: u32) -> Self {
        Self { job, place, broken_off: 0 }
    }
}

impl fmt::Display for ClientCallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let job = self.job.to_string();
        write!(f, "{PREFIX}{}_{}", job.strip_prefix(JobId::PREFIX).unwrap_or(&job), self.place)?;
        if self.broken_off > 0 { write!(f, "_{}", self.broken_off) } else { Ok(()) }
    }
}

/// The text is not such an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a call that was handed to a client")]
pub struct NotAClientCall;

impl FromStr for ClientCallId {
    type Err = NotAClientCall;

    fn from_str(text: &str) -> Result<Self, NotAClientCall> {
        let parts = text.strip_prefix(PREFIX).and_then(|rest| rest.split_once('_'));
        let (job, place) = parts.ok_or(NotAClientCall)?;
        let job = format!("{}{job}", JobId::PREFIX).parse().map_err(|_| NotAClientCall)?;
        let (place, broken_off) = place.split_once('_').unwrap_or((place, "0"));
        let number = |text: &str| text.parse().map_err(|_| NotAClientCall);
        let id = Self { job, place: number(place)?, broken_off: number(broken_off)? };
        // One id has one spelling: "+1" and "01" are refused.
        if id.to_string() == text { Ok(id) } else { Err(NotAClientCall) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written_and_fits_into_forty_characters() {
        let id = ClientCallId::new(JobId::from_bits(u128::MAX), 12);
        let text = id.to_string();
        for (id, written) in [(id, text.clone()), (ClientCallId { broken_off: 3, ..id }, format!("{text}_3"))]
        {
            assert_eq!((id.to_string(), written.parse()), (written.clone(), Ok(id)));
            assert!(written.len() <= 40, "{written}");
        }
        for other in [
            "",
            "call_1",
            "call_abc_0",
            &text.replace("_12", "_012"),
            &text.replace("call", "tool"),
            &format!("{text}_0"),
        ] {
            assert_eq!(other.parse::<ClientCallId>(), Err(NotAClientCall), "{other}");
        }
    }
}
