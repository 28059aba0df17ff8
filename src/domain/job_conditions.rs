//! When a job may start, by when it has to end, and what it may cost.

use super::id::JobId;
use serde::{Deserialize, Serialize};

/// What becomes of a job when one that it comes after does not succeed.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// It fails, too, without running.
    #[default]
    Fail,
    /// It runs once all have ended.
    Run,
}

/// The conditions of a request; without any, a job runs when its turn comes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobConditions {
    /// Jobs of the same user that have to end before it starts; none is named twice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<JobId>,
    /// What happens if one of them does not succeed.
    pub on_failure: OnFailure,
    /// When it fails unless it has ended, unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// When it fails unless it has started, unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
    /// Maximum cost over all model calls, millionths of the currency of the prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_micros: Option<u64>,
}

impl JobConditions {
    /// Whether there is none.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// What another answer to the same question keeps: the jobs whose answers the question may show.
    #[must_use]
    pub fn of_question(self) -> Self {
        Self { after: self.after, on_failure: self.on_failure, ..Self::default() }
    }

    /// The same without the times that have passed.
    #[must_use]
    pub fn without_past(self, now_ms: u64) -> Self {
        let future = |at_ms: Option<u64>| at_ms.filter(|at_ms| *at_ms > now_ms);
        Self { deadline_ms: future(self.deadline_ms), expires_at_ms: future(self.expires_at_ms), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_keeps_only_the_times_that_are_still_to_come() {
        let after = vec![JobId::from_bits(1)];
        let asked =
            JobConditions { after, deadline_ms: Some(9), expires_at_ms: Some(5), ..JobConditions::default() };
        let left = asked.clone().without_past(5);
        assert_eq!((left.deadline_ms, left.expires_at_ms), (Some(9), None));
        assert_eq!(left.after, asked.after);
        assert!(!left.is_default() && JobConditions::default().is_default());
    }
}
