//! A row as text, and the reader of its cells.

use crate::domain::hex::{hex, hex_bytes};
use crate::domain::id::{ConversationId, UserId};
use crate::ports::StoreError;
use crate::store::rows::transfer::documents::JsonDocument;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::str::FromStr;

/// The cells of a row in the order of its columns, as `COPY` of `PostgreSQL` writes them; `None` is NULL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TextRow(pub(crate) Vec<Option<String>>);

impl TextRow {
    fn with(mut self, cell: Option<String>) -> Self {
        self.0.push(cell);
        self
    }

    /// Adds a text, or what is stored as its text.
    #[expect(clippy::needless_pass_by_value, reason = "ids are copied, and texts are borrowed")]
    pub(crate) fn text(self, value: impl ToString) -> Self {
        self.with(Some(value.to_string()))
    }

    /// Adds a text, or NULL.
    pub(crate) fn optional(self, value: Option<impl ToString>) -> Self {
        self.with(value.map(|value| value.to_string()))
    }

    /// Adds a number; one above `i64::MAX` becomes that, as the database keeps it.
    pub(crate) fn number(self, value: impl TryInto<i64>) -> Self {
        self.text(value.try_into().unwrap_or(i64::MAX))
    }

    /// Adds a number, or NULL.
    pub(crate) fn optional_number(self, value: Option<u64>) -> Self {
        self.optional(value.map(|value| i64::try_from(value).unwrap_or(i64::MAX)))
    }

    /// Adds a truth value.
    pub(crate) fn flag(self, value: bool) -> Self {
        self.text(if value { "t" } else { "f" })
    }

    /// Adds a user's number.
    pub(crate) fn user(self, user: UserId) -> Self {
        self.text(user.0)
    }

    /// Adds bytes.
    pub(crate) fn bytes(self, bytes: &[u8]) -> Self {
        self.text(format!("\\x{}", hex(bytes)))
    }

    /// Adds bytes, or NULL.
    pub(crate) fn optional_bytes(self, bytes: Option<&[u8]>) -> Self {
        match bytes {
            Some(bytes) => self.bytes(bytes),
            None => self.with(None),
        }
    }

    /// Adds a document as it is stored.
    pub(crate) fn document<T>(self, document: &JsonDocument<T>) -> Self {
        self.text(&document.text)
    }

    /// Adds the JSON of a value.
    pub(crate) fn json(self, value: &(impl Serialize + ?Sized)) -> Result<Self, StoreError> {
        Ok(self.text(json_text(value)?))
    }

    /// Adds the name that a value has in JSON.
    pub(crate) fn name(self, value: &impl Serialize) -> Result<Self, StoreError> {
        let quoted = json_text(value)?;
        Ok(self.text(quoted.trim_matches('"')))
    }

    /// The first cells, as the name of the row.
    pub(crate) fn key(&self, columns: usize) -> String {
        let cells: Vec<&str> =
            self.0.iter().take(columns).map(|cell| cell.as_deref().unwrap_or_default()).collect();
        cells.join(" ")
    }

    /// The length of all cells, bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().flatten().map(String::len).sum()
    }

    /// SHA-256 of the row.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        for cell in &self.0 {
            match cell {
                Some(text) => {
                    digest.update([1]);
                    digest.update(text.len().to_be_bytes());
                    digest.update(text);
                }
                None => digest.update([0]),
            }
        }
        digest.finalize().into()
    }

    /// Reads the cells from the first one on.
    pub(crate) fn cells(&self) -> TextCells<'_> {
        TextCells(self.0.iter())
    }
}

/// The cells of a row that are not read yet.
pub(crate) struct TextCells<'r>(std::slice::Iter<'r, Option<String>>);

impl<'r> TextCells<'r> {
    fn next(&mut self) -> Result<Option<&'r str>, StoreError> {
        let cell = self.0.next().ok_or_else(|| StoreError::Corrupt("it lacks columns".to_owned()))?;
        Ok(cell.as_deref())
    }

    fn some(&mut self) -> Result<&'r str, StoreError> {
        self.next()?.ok_or_else(|| StoreError::Corrupt("it lacks a value".to_owned()))
    }

    /// Passes these cells: they repeat others.
    pub(crate) fn skip(&mut self, cells: usize) -> Result<(), StoreError> {
        (0..cells).try_for_each(|_| self.next().map(drop))
    }

    /// The text, or what is stored as its text.
    pub(crate) fn text<T: FromStr>(&mut self) -> Result<T, StoreError> {
        let text = self.some()?;
        text.parse().map_err(|_| not_of_its_kind(text))
    }

    /// The same, or NULL.
    pub(crate) fn optional<T: FromStr>(&mut self) -> Result<Option<T>, StoreError> {
        self.next()?.map(|text| text.parse().map_err(|_| not_of_its_kind(text))).transpose()
    }

    /// A truth value.
    pub(crate) fn flag(&mut self) -> Result<bool, StoreError> {
        Ok(self.some()? == "t")
    }

    /// A user's number.
    pub(crate) fn user(&mut self) -> Result<UserId, StoreError> {
        self.text().map(UserId)
    }

    /// The name of a conversation.
    pub(crate) fn conversation(&mut self) -> Result<ConversationId, StoreError> {
        ConversationId::try_from(self.some()?.to_owned()).map_err(StoreError::Corrupt)
    }

    /// Bytes of this width.
    pub(crate) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        read_bytes(self.some()?)
    }

    /// The same, or NULL.
    pub(crate) fn optional_bytes<const N: usize>(&mut self) -> Result<Option<[u8; N]>, StoreError> {
        self.next()?.map(read_bytes).transpose()
    }

    /// A document.
    pub(crate) fn document<T: DeserializeOwned>(&mut self) -> Result<JsonDocument<T>, StoreError> {
        JsonDocument::read(self.some()?.to_owned())
    }

    /// A document, or NULL.
    pub(crate) fn optional_document<T: DeserializeOwned>(
        &mut self,
    ) -> Result<Option<JsonDocument<T>>, StoreError> {
        self.next()?.map(|text| JsonDocument::read(text.to_owned())).transpose()
    }
}

/// Bytes of this width.
fn read_bytes<const N: usize>(text: &str) -> Result<[u8; N], StoreError> {
    text.strip_prefix("\\x").and_then(hex_bytes).ok_or_else(|| not_of_its_kind(text))
}

fn not_of_its_kind(text: &str) -> StoreError {
    let start: String = text.chars().take(64).collect();
    StoreError::Corrupt(format!("'{start}' is not of its kind"))
}

fn json_text(value: &(impl Serialize + ?Sized)) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Corrupt(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_every_kind_round_trip() {
        let row = TextRow::default()
            .text("a\tb")
            .optional(None::<u8>)
            .number(u64::MAX)
            .flag(true)
            .user(UserId(7))
            .bytes(&[0, 255]);
        let mut cells = row.cells();
        assert_eq!(cells.text::<String>().unwrap(), "a\tb");
        assert_eq!(cells.optional::<u8>().unwrap(), None);
        assert_eq!(cells.text::<i64>().unwrap(), i64::MAX);
        assert!(cells.flag().unwrap());
        assert_eq!(cells.user().unwrap(), UserId(7));
        assert_eq!(cells.bytes::<2>().unwrap(), [0, 255]);
        assert!(cells.text::<String>().is_err(), "nothing is left");
        assert!(row.cells().text::<u64>().is_err());
    }

    #[test]
    fn rows_with_other_cells_have_other_digests() {
        let rows = [
            TextRow::default(),
            TextRow::default().text(""),
            TextRow::default().optional(None::<u8>),
            TextRow::default().text("ab").text("c"),
            TextRow::default().text("a").text("bc"),
        ];
        let digests: std::collections::BTreeSet<_> = rows.iter().map(TextRow::digest).collect();
        assert_eq!(digests.len(), rows.len());
    }
}
