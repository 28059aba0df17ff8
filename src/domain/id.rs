//! Identifiers: prefixed, sortable by time, opaque to clients. Time and randomness come in as arguments.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;
use ulid::Ulid;

/// A text that is not an id of the expected kind.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{text}' is not an id of the form {prefix}…")]
pub struct IdError {
    /// Expected prefix.
    pub prefix: &'static str,
    /// The text, cut to 64 characters.
    pub text: String,
}

macro_rules! prefixed_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u128);

        impl $name {
            /// Prefix of this kind.
            pub const PREFIX: &'static str = $prefix;

            /// The id with these 128 bits.
            pub const fn from_bits(bits: u128) -> Self {
                Self(bits)
            }

            /// The id's 16 bytes, big-endian; their order is the order of ids.
            pub const fn to_bytes(self) -> [u8; 16] {
                self.0.to_be_bytes()
            }

            /// The id with these bytes. Every 16 bytes are valid.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(u128::from_be_bytes(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", Self::PREFIX, Ulid(self.0))
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let wrong = || IdError { prefix: Self::PREFIX, text: text.chars().take(64).collect() };
                let body = text.strip_prefix(Self::PREFIX).ok_or_else(wrong)?;
                let bits = Ulid::from_string(body).map_err(|_| wrong())?.0;
                // One id has one spelling: lower case and out-of-range ULIDs are refused.
                if Ulid(bits).to_string() == body { Ok(Self(bits)) } else { Err(wrong()) }
            }
        }

        #[cfg(test)]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "pattern": format!("^{}[0-7][0-9A-HJKMNP-TV-Z]{{25}}$", $prefix)})
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

prefixed_id!(
    /// Id of a job, `job_…`.
    JobId,
    "job_"
);
prefixed_id!(
    /// Id of an assistant message, `msg_…`.
    MessageId,
    "msg_"
);
prefixed_id!(
    /// Id of a user message, `ask_…`.
    AskId,
    "ask_"
);
prefixed_id!(
    /// Id of a project, `proj_…`.
    ProjectId,
    "proj_"
);
prefixed_id!(
    /// Id of an API token in lists, `tok_…`; not the key.
    TokenId,
    "tok_"
);
prefixed_id!(
    /// Id of an invite in lists, `inv_…`: the start of its code's digest, not the code.
    InviteId,
    "inv_"
);
prefixed_id!(
    /// Id of a schedule, `sched_…`.
    ScheduleId,
    "sched_"
);

prefixed_id!(
    /// Id of a batch, `batch_…`.
    BatchId,
    "batch_"
);
prefixed_id!(
    /// Id of an uploaded file, `file-…`, as clients of `OpenAI` expect it.
    FileId,
    "file-"
);

impl JobId {
    /// Id of the job's answer: the same bits, so that a retry keeps it.
    pub const fn message_id(self) -> MessageId {
        MessageId(self.0)
    }

    /// Id of the job's question: the same bits.
    pub const fn ask_id(self) -> AskId {
        AskId(self.0)
    }
}

impl MessageId {
    /// The job of this answer.
    pub const fn job(self) -> JobId {
        JobId(self.0)
    }
}

impl AskId {
    /// The job that first had this question.
    pub const fn job(self) -> JobId {
        JobId(self.0)
    }
}

prefixed_id!(
    /// Id of a webhook delivery, `whd_…`; sent as `webhook-id`.
    DeliveryId,
    "whd_"
);

impl DeliveryId {
    /// Id for an event at `now_ms` of the subject with these bits. Collisions have a chance of 2⁻⁸⁰; the
    /// store then takes [`DeliveryId::next`].
    pub fn at(now_ms: u64, subject: u128) -> Self {
        Self(Ulid::from_parts(now_ms, subject).0)
    }

    /// The following id.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// A user's number. With `auth_mode: single` there is only `UserId::SINGLE`.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UserId(pub u32);

impl UserId {
    /// The user `default` of single mode.
    pub const SINGLE: Self = Self(1);
}

/// Id of a conversation: 1–64 of `A–Z a–z 0–9 _ -`.
///
/// Ids are per user: the `chat` of two users are two conversations (P7).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ConversationId(String);

impl ConversationId {
    /// Maximum length, bytes.
    pub const MAX_BYTES: usize = 64;

    /// A generated id, `conv_…`, from 128 random bits.
    pub fn of_bits(bits: u128) -> Self {
        Self(format!("conv_{}", Ulid(bits)))
    }

    /// The id as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
impl schemars::JsonSchema for ConversationId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ConversationId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"})
    }
}

impl TryFrom<String> for ConversationId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let ok = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if (1..=Self::MAX_BYTES).contains(&text.len()) && text.bytes().all(ok) {
            Ok(Self(text))
        } else {
            Err("must be 1 to 64 characters of A-Z, a-z, 0-9, '_' and '-'".to_owned())
        }
    }
}

impl From<ConversationId> for String {
    fn from(id: ConversationId) -> Self {
        id.0
    }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Generates 128-bit ids that rise strictly within a process: 48 bits of unix milliseconds, 80 random bits.
#[derive(Debug, Default)]
pub struct IdGenerator {
    last: Mutex<u128>,
}

impl IdGenerator {
    /// The next id at `now_ms`. Ids rise even within a millisecond or after the clock went back.
    pub fn mint(&self, now_ms: u64, random: u128) -> u128 {
        let fresh = Ulid::from_parts(now_ms, random).0;
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *last = fresh.max(last.saturating_add(1));
        *last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_id_round_trips_and_sorts_like_its_bits() {
        let (a, b) = (JobId::from_bits(7 << 80), JobId::from_bits(8 << 80));
        assert_eq!(a.to_string().parse::<JobId>(), Ok(a));
        assert!(a.to_string() < b.to_string());
        assert_eq!(JobId::from_bytes(a.to_bytes()), a);
    }

    #[test]
    fn an_id_with_a_wrong_prefix_or_form_is_refused() {
        for text in
            ["", "job_", "msg_01ARZ3NDEKTSV4RRFFQ69G5FAV", "job_01ARZ3NDEKTSV4RRFFQ69G5FA", "job_../etc"]
        {
            assert!(text.parse::<JobId>().is_err(), "{text}");
        }
        let lower = JobId::from_bits(u128::MAX / 3).to_string().to_lowercase();
        assert!(lower.parse::<JobId>().is_err(), "one id, one spelling");
    }

    #[test]
    fn new_ids_rise_even_when_the_clock_goes_back() {
        let mint = IdGenerator::default();
        let ids = [mint.mint(10, 5), mint.mint(10, 4), mint.mint(9, 9), mint.mint(11, 0)];
        assert!(ids.windows(2).all(|w| w[0] < w[1]));
    }

    #[test]
    fn a_conversation_id_allows_few_characters_and_64_at_most() {
        assert!(ConversationId::try_from("my-chat_1".to_owned()).is_ok());
        for bad in ["", "a b", "../x", "ü", &"x".repeat(65)] {
            assert!(ConversationId::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
