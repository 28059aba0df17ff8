//! Compares a run with an earlier one and names the figures that have become worse.

use crate::figures::{self, FSYNC, Figure};
use crate::results::Results;
use crate::unit::format_ratio;

/// Each run differs from the one before by a few percent; a larger loss than this share is a finding.
const MAX_LOSS: f64 = 0.15;

/// Our figures that are more than 15 % worse than in the earlier run; a line for each. Where both runs
/// measured the bare program beside a figure, the ratios to it are compared: they depend less on the machine.
pub(crate) fn losses(now: &Results, before: &Results) -> Result<Vec<String>, String> {
    let is_ours = |figure: &&Figure| figure.peer_of.is_none() && figure.key != FSYNC;
    let compared: Vec<(&Figure, Change)> = figures::all()
        .filter(is_ours)
        .filter_map(|figure| Some((figure, Change::of(figure, before, now)?)))
        .collect();
    if compared.is_empty() {
        return Err("the two runs have no figure in common".to_owned());
    }
    let worse = compared.iter().filter(|(_, change)| change.loss > MAX_LOSS);
    Ok(worse.map(|(figure, change)| format!("{}: {change}", figure.name)).collect())
}

/// How a figure has changed.
#[derive(Debug)]
struct Change {
    /// The share that was lost; negative: it is better.
    loss: f64,
    before: String,
    now: String,
}

impl Change {
    /// `None`: the runs cannot be compared.
    fn of(figure: &Figure, before: &Results, now: &Results) -> Option<Self> {
        let bare = format!("{}.bare", figure.key);
        let pair = |key: &str| Some((before.value(key)?, now.value(key)?));
        let (old, new) = pair(figure.key)?;
        let (old, new, text): (f64, f64, fn(&Figure, f64) -> String) = match pair(&bare) {
            Some((old_bare, new_bare)) => {
                (old / old_bare, new / new_bare, |_, ratio| format!("{} × bare", format_ratio(ratio)))
            }
            None => (old, new, |figure, value| figure.unit().format(value)),
        };
        let kept = if figure.unit().is_larger_better() { new / old } else { old / new };
        // A difference of two medians may be zero or negative.
        let is_comparable = kept.is_finite() && kept > 0.0;
        is_comparable.then(|| Self { loss: 1.0 - kept, before: text(figure, old), now: text(figure, new) })
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} → {}, {:.0} % worse", self.before, self.now, self.loss * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(figures: &[(&str, f64)]) -> Results {
        let mut results = Results::default();
        for (key, value) in figures {
            results.record(key, *value);
        }
        results
    }

    #[test]
    fn a_loss_above_15_percent_is_found_for_rates_and_for_times() {
        let before = run(&[("turns.jobs", 1_000.0), ("sandbox.python", 4.0)]);
        let losses = |rate, time| losses(&run(&[("turns.jobs", rate), ("sandbox.python", time)]), &before);
        assert_eq!(losses(860.0, 4.6), Ok(Vec::new()));
        assert_eq!(losses(2_000.0, 0.4), Ok(Vec::new()));
        let found = losses(840.0, 4.8).expect("comparable");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].ends_with("1,000/s → 840/s, 16 % worse"), "{found:?}");
        assert!(found[1].ends_with("4.00 ms → 4.80 ms, 17 % worse"), "{found:?}");
    }

    #[test]
    fn ratios_to_the_bare_program_are_compared_where_both_runs_have_them() {
        let before = run(&[("enqueue.64", 20_000.0), ("enqueue.64.bare", 40_000.0)]);
        let losses = |ours, bare| losses(&run(&[("enqueue.64", ours), ("enqueue.64.bare", bare)]), &before);
        assert_eq!(losses(10_000.0, 20_000.0), Ok(Vec::new()), "the machine is slower");
        let found = losses(20_000.0, 60_000.0).expect("comparable");
        assert!(found[0].ends_with("0.5 × bare → 0.33 × bare, 33 % worse"), "{found:?}");
    }

    #[test]
    fn a_run_without_a_common_figure_is_refused() {
        let now = run(&[("size.binary", 1.0)]);
        assert!(losses(&now, &run(&[("turns.jobs", 1.0)])).is_err());
    }
}
