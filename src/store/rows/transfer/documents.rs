//! A document with the text that it is stored as. The text is copied as it is: reading and writing it again
//! may change the last digit of a number.

use crate::ports::StoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A readable document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonDocument<T> {
    pub(crate) text: String,
    pub(crate) value: T,
}

impl<T: DeserializeOwned> JsonDocument<T> {
    /// Reads the text of a document.
    pub(crate) fn read(text: String) -> Result<Self, StoreError> {
        let value = serde_json::from_str(&text).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        Ok(Self { text, value })
    }
}

impl<T: Serialize> JsonDocument<T> {
    /// The document of a value.
    pub(crate) fn of(value: T) -> Result<Self, StoreError> {
        let text = serde_json::to_string(&value).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        Ok(Self { text, value })
    }
}
