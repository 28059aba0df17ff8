//! Errors in the configuration of models.

/// Why the configured models cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelConfigError {
    /// A model has an empty id.
    #[error("a model has an empty id")]
    NoId,
    /// Two models have the same id.
    #[error("model '{0}' is configured twice")]
    Twice(String),
    /// A model has no address.
    #[error("model '{0}' has no api_url (only a model with 'provider: demo' needs none)")]
    NoUrl(String),
    /// An address cannot be used.
    #[error("model '{id}' has a bad api_url: {reason}")]
    BadUrl {
        /// The model.
        id: String,
        /// The reason.
        reason: &'static str,
    },
    /// A remote provider needs a key.
    #[error("model '{0}' has no api_key (only providers on this machine need none)")]
    NoKey(String),
    /// The key cannot be sent in a header.
    #[error("model '{0}' has an api_key with a space, a line break or a character beyond ASCII in it")]
    BadKey(String),
    /// A list of fallback models cannot be used.
    #[error("model '{id}' has a bad fallback: '{other}' {reason}")]
    Fallback {
        /// The model.
        id: String,
        /// The entry of the list.
        other: String,
        /// The reason.
        reason: &'static str,
    },
    /// A price is out of range.
    #[error("model '{id}' has a bad price.{key}: {value} must be a number from 0 to 1000000000")]
    Price {
        /// The model.
        id: String,
        /// The configuration key.
        key: &'static str,
        /// The value as given.
        value: String,
    },
    /// A rate limit is invalid.
    #[error("model '{id}' has a bad rate.{key}: {reason}")]
    Rate {
        /// The model.
        id: String,
        /// The configuration key.
        key: &'static str,
        /// The reason.
        reason: &'static str,
    },
    /// A header cannot be sent.
    #[error("model '{id}' has a bad header in extra_headers, '{name}': {reason}")]
    BadHeader {
        /// The model.
        id: String,
        /// The header's name.
        name: String,
        /// The reason.
        reason: &'static str,
    },
}
