//! Which jobs a list shows.

use super::id::{BatchId, ConversationId, JobId, ScheduleId};
use super::job::Job;

/// Conditions that a job must meet, all of them. [`JobFilter::NONE`] lets every job pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Started by this job in the background.
    pub parent: Option<JobId>,
    /// A line of this batch.
    pub batch: Option<BatchId>,
    /// Started by this schedule.
    pub schedule: Option<ScheduleId>,
    /// Of this conversation.
    pub conversation: Option<ConversationId>,
    /// Requested for this model.
    pub model: Option<String>,
    /// Has this label, as `key=value`.
    pub label: Option<String>,
    /// Accepted at this time or later, unix milliseconds.
    pub created_from_ms: Option<u64>,
    /// Accepted before this time, unix milliseconds.
    pub created_before_ms: Option<u64>,
}

impl JobFilter {
    /// No condition.
    pub const NONE: Self = Self {
        parent: None,
        batch: None,
        schedule: None,
        conversation: None,
        model: None,
        label: None,
        created_from_ms: None,
        created_before_ms: None,
    };

    /// Whether the job meets all conditions.
    pub fn matches(&self, job: &Job) -> bool {
        let has = |label: &String| {
            job.metadata.iter().any(|(key, value)| {
                label.strip_prefix(key.as_str()).and_then(|rest| rest.strip_prefix('=')) == Some(value)
            })
        };
        self.parent.is_none_or(|parent| job.origin.parent() == Some(parent))
            && self.batch.is_none_or(|batch| job.batch.is_some_and(|line| line.batch == batch))
            && self.schedule.is_none_or(|schedule| job.origin.schedule() == Some(schedule))
            && self.conversation.as_ref().is_none_or(|id| job.conversation_id.as_ref() == Some(id))
            && self.model.as_ref().is_none_or(|model| job.model == *model)
            && self.label.as_ref().is_none_or(has)
            && self.created_from_ms.is_none_or(|from| job.created_at_ms >= from)
            && self.created_before_ms.is_none_or(|before| job.created_at_ms < before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::UserId;
    use crate::domain::job::JobSpec;
    use crate::domain::message::Message;

    #[test]
    fn a_label_matches_as_a_whole_even_with_an_equals_sign_in_its_key() {
        let mut spec = JobSpec::new("demo".to_owned(), vec![Message::user("x")], 1, 1);
        spec.metadata.insert("a=b".to_owned(), "c".to_owned());
        let job = Job::queued(JobId::from_bits(1), UserId::SINGLE, 5_000, &spec);
        let of = |label: &str| JobFilter { label: Some(label.to_owned()), ..JobFilter::NONE }.matches(&job);
        assert!(of("a=b=c"));
        assert!(!of("a=b") && !of("a") && !of("a=b=cd") && !of("=c") && !of(""));
    }

    #[test]
    fn the_first_bound_of_time_is_inside_and_the_second_outside() {
        let spec = JobSpec::new("demo".to_owned(), vec![Message::user("x")], 1, 1);
        let job = Job::queued(JobId::from_bits(1), UserId::SINGLE, 5_000, &spec);
        let of = |from, before| {
            let filter = JobFilter { created_from_ms: from, created_before_ms: before, ..JobFilter::NONE };
            filter.matches(&job)
        };
        assert!(of(Some(5_000), Some(5_001)) && of(None, None));
        assert!(!of(Some(5_001), None) && !of(None, Some(5_000)));
    }
}
