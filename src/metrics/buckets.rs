//! The buckets of all histograms. Owns nothing else.

use super::value::Buckets;

const US_PER_S: u64 = 1_000_000;

/// What a disk takes.
pub(super) const COMMIT: Buckets = Buckets {
    bounds: &[250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000],
    per_unit: US_PER_S,
};

/// Writes of one commit.
pub(super) const GROUP: Buckets =
    Buckets { bounds: &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024], per_unit: 1 };

/// What an answer of this server takes.
pub(super) const REQUEST: Buckets = Buckets {
    bounds: &[
        1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 250_000, 1_000_000, 2_500_000, 10_000_000, 60_000_000,
    ],
    per_unit: US_PER_S,
};

/// What a tool or a program takes.
pub(super) const RUN: Buckets = Buckets {
    bounds: &[
        1_000,
        5_000,
        25_000,
        100_000,
        250_000,
        500_000,
        1_000_000,
        2_500_000,
        5_000_000,
        10_000_000,
        30_000_000,
        120_000_000,
    ],
    per_unit: US_PER_S,
};

/// What a model takes.
pub(super) const MODEL: Buckets = Buckets {
    bounds: &[
        50_000,
        100_000,
        250_000,
        500_000,
        1_000_000,
        2_500_000,
        5_000_000,
        10_000_000,
        30_000_000,
        60_000_000,
        120_000_000,
        300_000_000,
    ],
    per_unit: US_PER_S,
};

/// What a job takes, and what it waits.
pub(super) const JOB: Buckets = Buckets {
    bounds: &[
        10_000,
        100_000,
        500_000,
        1_000_000,
        5_000_000,
        10_000_000,
        30_000_000,
        60_000_000,
        300_000_000,
        900_000_000,
        3_600_000_000,
        14_400_000_000,
    ],
    per_unit: US_PER_S,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_rise() {
        for buckets in [COMMIT, GROUP, REQUEST, RUN, MODEL, JOB] {
            assert!(buckets.bounds.is_sorted_by(|one, next| one < next), "{buckets:?}");
        }
    }
}
