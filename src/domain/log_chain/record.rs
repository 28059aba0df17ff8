//! The records of a log as they are stored, each with its place and its link.

use super::super::event::{EngineMark, Event, Record};
use super::link::{ChainLink, RecordPlace};

/// A record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRecord {
    /// Where it stands.
    pub place: RecordPlace,
    /// Its JSON, byte for byte.
    pub body: String,
    /// Its link; records of earlier versions, and of what is left of an imported log, have none.
    pub link: Option<ChainLink>,
}

impl LogRecord {
    /// The record in the text.
    pub fn parse(&self) -> Result<Record, serde_json::Error> {
        Ok(match self.place.sub {
            0 => Record::Event(serde_json::from_str::<Event>(&self.body)?),
            _ => Record::Mark(serde_json::from_str::<EngineMark>(&self.body)?),
        })
    }

    /// Whether the other one stands at the same place with the same bytes.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.place, &self.body) == (other.place, &other.body)
    }
}
