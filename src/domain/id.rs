//! Identifiers: prefixed, sortable by time, opaque to clients. Owns their text form and their bytes;
//! refuses to read a clock or a random source (both come in as arguments).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;
use ulid::Ulid;

/// A text that is not an identifier of the wanted kind.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{text}' is not an id of the form {prefix}…")]
pub struct IdError {
    /// The prefix that the id should have carried.
    pub prefix: &'static str,
    /// What was given, cut to 64 characters.
    pub text: String,
}

macro_rules! prefixed_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u128);

        impl $name {
            /// What every id of this kind starts with.
            pub const PREFIX: &'static str = $prefix;

            /// The id with these 128 bits.
            pub const fn from_bits(bits: u128) -> Self {
                Self(bits)
            }

            /// The 16 bytes that order and identify it, big-endian.
            pub const fn to_bytes(self) -> [u8; 16] {
                self.0.to_be_bytes()
            }

            /// The id with these bytes; every 16 bytes are one.
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
    /// A job, `job_…`.
    JobId,
    "job_"
);
prefixed_id!(
    /// A stored assistant message, `msg_…`.
    MessageId,
    "msg_"
);
prefixed_id!(
    /// What a job was asked, as a message of its conversation, `ask_…`.
    AskId,
    "ask_"
);
prefixed_id!(
    /// A project, `proj_…`.
    ProjectId,
    "proj_"
);
prefixed_id!(
    /// An API token's name in lists, `tok_…`; not the key.
    TokenId,
    "tok_"
);
prefixed_id!(
    /// A schedule, `sched_…`.
    ScheduleId,
    "sched_"
);

prefixed_id!(
    /// A batch of jobs, `batch_…`.
    BatchId,
    "batch_"
);

impl JobId {
    /// The id of the one answer that this job may leave: the same bits, so that a rerun names the same message.
    pub const fn message_id(self) -> MessageId {
        MessageId(self.0)
    }

    /// The id of its question: the same bits.
    pub const fn ask_id(self) -> AskId {
        AskId(self.0)
    }
}

impl MessageId {
    /// The job that said it.
    pub const fn job(self) -> JobId {
        JobId(self.0)
    }
}

impl AskId {
    /// The job that was asked it first.
    pub const fn job(self) -> JobId {
        JobId(self.0)
    }
}

prefixed_id!(
    /// A webhook on its way, `whd_…`; what its receiver reads as `webhook-id`.
    DeliveryId,
    "whd_"
);

impl DeliveryId {
    /// An id for what happened at `now_ms` to the subject with these bits. Two subjects share one only by a chance of 2⁻⁸⁰;
    /// whoever stores it takes [`DeliveryId::next`] then.
    pub fn at(now_ms: u64, subject: u128) -> Self {
        Self(Ulid::from_parts(now_ms, subject).0)
    }

    /// The id after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// A user, by number. `UserId::SINGLE` is the only one while `auth_mode` is `single`.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UserId(pub u32);

impl UserId {
    /// The user `default` of single mode.
    pub const SINGLE: Self = Self(1);
}

/// A conversation's name inside its user's own space: 1–64 of `A–Z a–z 0–9 _ -`.
///
/// Names are per user, so two users' `chat` never meet (P7).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ConversationId(String);

impl ConversationId {
    /// The longest name, in bytes.
    pub const MAX_BYTES: usize = 64;

    /// A name that nobody chose, `conv_…`, of these 128 bits.
    pub fn of_bits(bits: u128) -> Self {
        Self(format!("conv_{}", Ulid(bits)))
    }

    /// The name as given.
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

/// Makes 128-bit ids that rise strictly within one process: 48 bits of unix milliseconds, 80 random bits.
#[derive(Debug, Default)]
pub struct IdGenerator {
    last: Mutex<u128>,
}

impl IdGenerator {
    /// The next id's bits at `now_ms`; ids of one millisecond, or of a clock that went back, still rise.
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
    fn text_form_round_trips_and_sorts_like_bits() {
        let (a, b) = (JobId::from_bits(7 << 80), JobId::from_bits(8 << 80));
        assert_eq!(a.to_string().parse::<JobId>(), Ok(a));
        assert!(a.to_string() < b.to_string());
        assert_eq!(JobId::from_bytes(a.to_bytes()), a);
    }

    #[test]
    fn foreign_and_malformed_texts_are_refused() {
        for text in
            ["", "job_", "msg_01ARZ3NDEKTSV4RRFFQ69G5FAV", "job_01ARZ3NDEKTSV4RRFFQ69G5FA", "job_../etc"]
        {
            assert!(text.parse::<JobId>().is_err(), "{text}");
        }
        let lower = JobId::from_bits(u128::MAX / 3).to_string().to_lowercase();
        assert!(lower.parse::<JobId>().is_err(), "one id, one spelling");
    }

    #[test]
    fn minted_ids_rise_even_when_the_clock_goes_back() {
        let mint = IdGenerator::default();
        let ids = [mint.mint(10, 5), mint.mint(10, 4), mint.mint(9, 9), mint.mint(11, 0)];
        assert!(ids.windows(2).all(|w| w[0] < w[1]));
    }

    #[test]
    fn conversation_names_are_a_closed_alphabet() {
        assert!(ConversationId::try_from("my-chat_1".to_owned()).is_ok());
        for bad in ["", "a b", "../x", "ü", &"x".repeat(65)] {
            assert!(ConversationId::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
