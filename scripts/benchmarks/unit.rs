//! Units of values, and numbers formatted for people.

/// The unit of a value. It decides whether a larger value is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Ms,
    Us,
    Mib,
    Kib,
    Cores,
    PerSecond,
    /// Cost, not work: less is better.
    StatementsPerSecond,
    Count,
}

impl Unit {
    pub(crate) fn is_larger_better(self) -> bool {
        matches!(self, Self::PerSecond | Self::Count)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ms => "ms",
            Self::Us => "µs",
            Self::Mib => "MiB",
            Self::Kib => "KiB",
            Self::Cores => "cores",
            Self::PerSecond => "per second",
            Self::StatementsPerSecond => "statements per second",
            Self::Count => "number",
        }
    }

    /// The value with its unit.
    pub(crate) fn format(self, value: f64) -> String {
        match self {
            Self::Ms if value < 10.0 => format!("{value:.2} ms"),
            Self::Ms => format!("{value:.1} ms"),
            Self::Us => format!("{value:.2} µs"),
            Self::Mib => format!("{value:.1} MiB"),
            Self::Kib => format!("{value:.1} KiB"),
            Self::Cores => format!("{value:.2} cores"),
            Self::PerSecond | Self::StatementsPerSecond if value < 100.0 => format!("{value:.1}/s"),
            Self::PerSecond | Self::StatementsPerSecond => format!("{}/s", with_commas(value)),
            Self::Count => with_commas(value),
        }
    }

    /// The same without trailing zeros, for goals.
    pub(crate) fn format_goal(self, value: f64) -> String {
        let text = self.format(value);
        let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | ',')).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        format!("{}{unit}", without_trailing_zeros(number))
    }
}

/// A ratio with about three digits.
pub(crate) fn format_ratio(ratio: f64) -> String {
    let decimals = match ratio {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    without_trailing_zeros(&format!("{ratio:.decimals$}")).to_owned()
}

fn without_trailing_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// A whole number with a comma between thousands.
pub(crate) fn with_commas(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_have_no_trailing_zeros() {
        assert_eq!(Unit::Ms.format_goal(3.5), "3.5 ms");
        assert_eq!(Unit::Mib.format_goal(16.0), "16 MiB");
        assert_eq!(Unit::PerSecond.format_goal(100_000.0), "100,000/s");
        assert_eq!(Unit::Cores.format_goal(1.0), "1 cores");
    }
}
