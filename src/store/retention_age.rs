//! The age after which something is removed: `90s`, `24h`, `30d` or `never`. A number without a unit is an
//! error.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The units, milliseconds, the longest first.
const UNITS: [(&str, u64); 5] =
    [("w", 7 * 86_400_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];

/// Maximum age, milliseconds: a hundred years.
const MAX_MS: u64 = 36_525 * 86_400_000;

/// The age after which data is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetentionAge {
    /// Never.
    Forever,
    /// So many milliseconds after its job's end.
    For(u64),
}

impl RetentionAge {
    /// The age, milliseconds; `None` for never.
    pub fn age_ms(self) -> Option<u64> {
        match self {
            Self::Forever => None,
            Self::For(ms) => Some(ms),
        }
    }

    /// Jobs that ended before this time are due; `None` when no job ever is.
    pub fn cutoff_ms(self, now_ms: u64) -> Option<u64> {
        self.age_ms().and_then(|ms| now_ms.checked_sub(ms))
    }
}

/// A text that is not a valid age.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no time; write a number with its unit, as in 90s, 30m, 24h, 30d or 1d12h, or never")]
pub struct InvalidRetentionAge(String);

impl FromStr for RetentionAge {
    type Err = InvalidRetentionAge;

    fn from_str(text: &str) -> Result<Self, InvalidRetentionAge> {
        let refused = || InvalidRetentionAge(text.chars().take(40).collect());
        if text == "never" {
            return Ok(Self::Forever);
        }
        let (mut rest, mut sum_ms) = (text, 0_u64);
        loop {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, after) = rest.split_at(digits);
            let number: u64 = number.parse().map_err(|_| refused())?;
            let (unit, ms) = UNITS.iter().find(|(unit, _)| after.starts_with(unit)).ok_or_else(refused)?;
            sum_ms = number.checked_mul(*ms).and_then(|ms| sum_ms.checked_add(ms)).ok_or_else(refused)?;
            rest = after.strip_prefix(unit).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
        }
        if sum_ms <= MAX_MS { Ok(Self::For(sum_ms)) } else { Err(refused()) }
    }
}

impl fmt::Display for RetentionAge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forever => f.write_str("never"),
            Self::For(ms) => {
                // Days read better than weeks, and 24h better than 1d.
                let fits = |(_, unit_ms): &&(&str, u64)| *ms >= 2 * unit_ms && ms % unit_ms == 0;
                let (unit, unit_ms) = UNITS.iter().skip(1).find(fits).copied().unwrap_or(("s", 1_000));
                write!(f, "{}{unit}", ms / unit_ms)
            }
        }
    }
}

impl Serialize for RetentionAge {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RetentionAge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RetentionAgeVisitor)
    }
}

/// Accepts a string; the error for a number explains the format.
struct RetentionAgeVisitor;

impl serde::de::Visitor<'_> for RetentionAgeVisitor {
    type Value = RetentionAge;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time with its unit, as in \"24h\" or \"30d\", or \"never\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<RetentionAge, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<RetentionAge, E> {
        Err(E::custom(InvalidRetentionAge(number.to_string())))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<RetentionAge, E> {
        Err(E::custom(InvalidRetentionAge(number.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn retention_ages_are_parsed_with_their_units() {
        for (text, ms) in [
            ("0s", 0),
            ("90s", 90_000),
            ("30m", 1_800_000),
            ("24h", 86_400_000),
            ("30d", 2_592_000_000),
            ("2w", 1_209_600_000),
            ("1d12h", 129_600_000),
        ] {
            assert_eq!(text.parse(), Ok(RetentionAge::For(ms)), "{text}");
        }
        assert_eq!("never".parse(), Ok(RetentionAge::Forever));
        assert_eq!(RetentionAge::For(86_400_000).to_string(), "24h");
        assert_eq!(RetentionAge::For(30 * 86_400_000).to_string(), "30d");
    }

    #[test]
    fn a_retention_age_without_a_valid_unit_is_refused_with_a_hint() {
        for text in
            ["", "24", "h", "1.5h", "-1h", "24 h", "24hours", "1y", "99999999999999999999d", "40000d", "é"]
        {
            let refused = text.parse::<RetentionAge>().expect_err(text).to_string();
            assert!(refused.contains("as in 90s"), "{refused}");
        }
        let number = serde_json::from_str::<RetentionAge>("24").expect_err("no unit").to_string();
        assert!(number.contains("'24' is no time; write a number with its unit"), "{number}");
    }

    proptest! {
        #[test]
        fn retention_ages_of_whole_seconds_round_trip(seconds in 0..=MAX_MS / 1_000) {
            let keep = RetentionAge::For(seconds * 1_000);
            prop_assert_eq!(keep.to_string().parse(), Ok(keep));
        }
    }
}
