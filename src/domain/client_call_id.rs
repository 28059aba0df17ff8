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
}

impl fmt::Display for ClientCallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let job = self.job.to_string();
        write!(f, "{PREFIX}{}_{}", job.strip_prefix(JobId::PREFIX).unwrap_or(&job), self.place)
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
        let id = Self { job, place: place.parse().map_err(|_| NotAClientCall)? };
        // One id has one spelling: "+1" and "01" are refused.
        if id.to_string() == text { Ok(id) } else { Err(NotAClientCall) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written_and_fits_into_forty_characters() {
        let id = ClientCallId { job: JobId::from_bits(u128::MAX), place: 12 };
        let text = id.to_string();
        assert!(text.len() <= 40, "{text}");
        assert_eq!(text.parse(), Ok(id));
        for other in ["", "call_1", "call_abc_0", &text.replace("_12", "_012"), &text.replace("call", "tool")]
        {
            assert_eq!(other.parse::<ClientCallId>(), Err(NotAClientCall), "{other}");
        }
    }
}
