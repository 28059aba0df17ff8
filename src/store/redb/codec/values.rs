//! How values become bytes: one version byte, then JSON; in a record of a log the link of the chain stands
//! between. An unknown version is an error.

use crate::domain::log_chain::{ChainLink, RecordPlace};
use crate::ports::StoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Display;

/// The layout that this build writes.
const VERSION: u8 = 1;
/// That of a record with its link.
const LINKED: u8 = 2;

/// The reason of a row whose checksum is wrong: it reads as an empty value, which nothing encodes to. Table
/// and key are in the log.
pub(crate) const DAMAGED: &str = "its row is damaged";

/// Initial capacity, bytes. It fits most values: a row that grows from nothing is reallocated eight times.
const ROOM: usize = 1024;

/// The value as it is stored.
pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::with_capacity(ROOM);
    bytes.push(VERSION);
    serde_json::to_writer(&mut bytes, value).map_err(|e| StoreError::Corrupt(e.to_string()))?;
    Ok(bytes)
}

/// A record as it is stored, behind this link. Moves the link on.
pub(crate) fn encode_linked<T: Serialize + ?Sized>(
    record: &T,
    link: &mut ChainLink,
    place: RecordPlace,
) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::with_capacity(ROOM);
    bytes.push(LINKED);
    bytes.extend_from_slice(&[0; ChainLink::BYTES]);
    serde_json::to_writer(&mut bytes, record).map_err(|e| StoreError::Corrupt(e.to_string()))?;
    let (_, rest) = bytes.split_at_mut(1);
    let (stored, body) = rest.split_at_mut(ChainLink::BYTES);
    *link = link.after(place, body);
    stored.copy_from_slice(&link.to_bytes());
    Ok(bytes)
}

/// The JSON of a record as it is stored.
pub(crate) fn encode_record_text(body: &str, link: Option<ChainLink>) -> Vec<u8> {
    let Some(link) = link else { return encode_text(body) };
    [&[LINKED], link.to_bytes().as_slice(), body.as_bytes()].concat()
}

/// The link of a record; `None`: it has none.
pub(crate) fn link(bytes: &[u8]) -> Option<ChainLink> {
    let rest = bytes.strip_prefix(&[LINKED])?;
    rest.first_chunk().copied().map(ChainLink::from_bytes)
}

/// The value that was stored.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(body(bytes)?).map_err(|e| StoreError::Corrupt(e.to_string()))
}

/// A text as it is stored: without JSON's escapes, it may be large.
pub(crate) fn encode_text(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len().saturating_add(1));
    bytes.push(VERSION);
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// The text that was stored.
pub(crate) fn decode_text(bytes: &[u8]) -> Result<String, StoreError> {
    String::from_utf8(body(bytes)?.to_vec()).map_err(|e| StoreError::Corrupt(e.to_string()))
}

/// The row for a list. A missing or unreadable one fails the list: a list without it would be wrong.
pub(crate) fn listed<T>(id: impl Display, found: Result<Option<T>, StoreError>) -> Result<T, StoreError> {
    found?.ok_or_else(|| StoreError::Corrupt(format!("listed item {id} has no row")))
}

/// The same for work that must go on: such a row is logged and left out.
pub(crate) fn skip_unreadable<T>(
    id: impl Display,
    found: Result<Option<T>, StoreError>,
) -> Result<Option<T>, StoreError> {
    match found {
        Ok(None) => tracing::error!(%id, "listed item has no row"),
        Err(StoreError::Corrupt(reason)) => tracing::error!(%id, reason, "listed item cannot be read"),
        shown => return shown,
    }
    Ok(None)
}

fn body(bytes: &[u8]) -> Result<&[u8], StoreError> {
    match bytes.split_first() {
        Some((&VERSION, body)) => Ok(body),
        Some((&LINKED, rest)) if rest.len() > ChainLink::BYTES => Ok(rest.split_at(ChainLink::BYTES).1),
        Some((version, _)) => Err(StoreError::Corrupt(format!("value of unknown version {version}"))),
        None => Err(StoreError::Corrupt(DAMAGED.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::JobId;

    #[test]
    fn values_round_trip() {
        assert_eq!(decode::<Vec<u64>>(&encode(&[1u64, 2]).unwrap()), Ok(vec![1, 2]));
        assert_eq!(decode_text(&encode_text("é\0")), Ok("é\0".to_owned()));
    }

    #[test]
    fn a_linked_record_is_read_as_any_other() {
        let (mut moved, place) = (ChainLink::start(JobId::from_bits(1)), RecordPlace::event(1));
        let expected = moved.after(place, b"[1,2]");
        let bytes = encode_linked(&[1u64, 2], &mut moved, place).unwrap();
        assert_eq!((moved, link(&bytes)), (expected, Some(expected)));
        assert_eq!(decode::<Vec<u64>>(&bytes), Ok(vec![1, 2]));
        assert_eq!(encode_record_text(&decode_text(&bytes).unwrap(), link(&bytes)), bytes);
        assert_eq!(link(&encode(&[1u64]).unwrap()), None);
    }

    #[test]
    fn an_unknown_value_version_is_refused_as_corrupt() {
        let mut bytes = encode(&1u64).unwrap();
        bytes[0] = 3;
        assert!(matches!(decode::<u64>(&bytes), Err(StoreError::Corrupt(_))));
        assert!(matches!(decode_text(&[]), Err(StoreError::Corrupt(_))));
    }
}
