//! What a job may do. Agents, background jobs and schedules get the rights of the job that asks for them, or
//! fewer. A new right is a field here, so that all of them get it.

use super::job::{ApprovalMode, JobSpec};
use super::job_conditions::JobConditions;
use super::tool::{Strictness, ToolChoice};

/// The rights of a job, or of what it starts. A job stores them in its request, a schedule in that of its
/// jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRights {
    /// Tools that the model may call.
    pub tools: ToolChoice,
    /// Tools whose calls need an approval, beside those of the configuration.
    pub approval_tools: Vec<String>,
    /// What happens to calls that need an approval.
    pub approval: ApprovalMode,
    /// The most calls of this server's tools, those of agents included.
    pub max_tool_calls: Option<u32>,
    /// Sandbox level for calls that name none, and the most lenient one.
    pub strictness: Option<Strictness>,
    /// Maximum model calls before the closing one.
    pub max_steps: u32,
    /// Wall time of one run.
    pub timeout_s: u64,
    /// When it fails unless it has ended, unix milliseconds.
    pub deadline_ms: Option<u64>,
    /// Maximum tokens over all model calls.
    pub max_total_tokens: Option<u64>,
    /// Maximum cost over all model calls, millionths.
    pub max_cost_micros: Option<u64>,
}

impl JobRights {
    /// All tools, with these limits only.
    pub fn new(tools: ToolChoice, max_steps: u32, timeout_s: u64) -> Self {
        Self {
            tools,
            approval_tools: Vec::new(),
            approval: ApprovalMode::default(),
            max_tool_calls: None,
            strictness: None,
            max_steps,
            timeout_s,
            deadline_ms: None,
            max_total_tokens: None,
            max_cost_micros: None,
        }
    }

    /// The rights of a schedule's jobs. Nobody is there who could approve a call, and a deadline is one point
    /// in time.
    #[must_use]
    pub fn of_schedule(self) -> Self {
        Self { approval: ApprovalMode::AutoDeny, deadline_ms: None, ..self }
    }

    /// The rights of another answer to a question that was asked with the rights `asked`. What protects
    /// stays: approvals, the choice of tools, the sandbox level, the number of calls. Time, tokens and cost
    /// are those of the new run.
    #[must_use]
    pub fn of_other_answer(self, asked: Self) -> Self {
        let keeps_tools = self.tools.offers_any() && asked.tools.offers_any();
        let tools = if keeps_tools { asked.tools } else { self.tools };
        let mut approval_tools = self.approval_tools;
        approval_tools.extend(asked.approval_tools);
        Self {
            tools,
            approval_tools,
            max_tool_calls: least(self.max_tool_calls, asked.max_tool_calls),
            strictness: least(self.strictness, asked.strictness),
            ..self
        }
    }
}

/// The smaller limit; `None` has no limit.
fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.into_iter().chain(other).min()
}

impl JobSpec {
    /// The rights of the job. Approvals that it hands to its client bind what it starts, too.
    pub fn rights(&self) -> JobRights {
        let handed = self.handed_approvals.iter().flat_map(|handed| &handed.tools);
        JobRights {
            tools: self.tools.clone(),
            approval_tools: self.approval_tools.iter().chain(handed).cloned().collect(),
            approval: self.approval,
            max_tool_calls: self.max_tool_calls,
            strictness: self.strictness,
            max_steps: self.max_steps,
            timeout_s: self.timeout_s,
            deadline_ms: self.conditions.deadline_ms,
            max_total_tokens: self.max_total_tokens,
            max_cost_micros: self.conditions.max_cost_micros,
        }
    }

    /// The same request with these rights. It hands no approvals to a client.
    #[must_use]
    pub fn with_rights(self, rights: JobRights) -> Self {
        let JobRights { deadline_ms, max_cost_micros, .. } = rights;
        Self {
            tools: rights.tools,
            approval_tools: rights.approval_tools,
            approval: rights.approval,
            handed_approvals: None,
            max_tool_calls: rights.max_tool_calls,
            strictness: rights.strictness,
            max_steps: rights.max_steps,
            timeout_s: rights.timeout_s,
            max_total_tokens: rights.max_total_tokens,
            conditions: JobConditions { deadline_ms, max_cost_micros, ..self.conditions },
            ..self
        }
    }

    /// This request for another answer to the question of `asked`, whose input and predecessors it keeps.
    #[must_use]
    pub fn answering_again(self, asked: Self) -> Self {
        let rights = self.rights().of_other_answer(asked.rights());
        let (input, conditions) = (asked.input, asked.conditions.of_question());
        Self { input, conditions, ..self }.with_rights(rights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::handed_approvals::HandedApprovals;

    fn spec() -> JobSpec {
        JobSpec::new("m".to_owned(), Vec::new(), 1, 1)
    }

    /// Rights none of which is the default one.
    fn strict() -> JobRights {
        JobRights {
            tools: ToolChoice::of_tools(["bash".to_owned()]),
            approval_tools: vec!["bash".to_owned()],
            approval: ApprovalMode::AutoDeny,
            max_tool_calls: Some(2),
            strictness: Some(Strictness::Strict),
            max_steps: 3,
            timeout_s: 4,
            deadline_ms: Some(5),
            max_total_tokens: Some(6),
            max_cost_micros: Some(7),
        }
    }

    #[test]
    fn a_job_has_exactly_the_rights_that_it_is_given_also_as_stored() {
        let given = spec().with_rights(strict());
        assert_eq!(given.rights(), strict());
        let text = serde_json::to_string(&given).expect("JSON");
        assert_eq!(serde_json::from_str::<JobSpec>(&text).expect("a spec").rights(), strict());
        let plain = JobRights::new(ToolChoice::Default, 1, 1);
        assert_eq!((spec().rights(), given.with_rights(plain.clone()).rights()), (plain.clone(), plain));
    }

    #[test]
    fn approvals_that_a_job_hands_to_its_client_bind_what_it_starts() {
        let handed = HandedApprovals { tools: vec!["pay".to_owned()], decided: Vec::new() };
        let rights = JobSpec { handed_approvals: Some(handed), ..spec() }.rights();
        assert_eq!(rights.approval_tools, ["pay"]);
        let child = spec().with_rights(rights);
        assert_eq!((child.rights().approval_tools, child.handed_approvals), (vec!["pay".to_owned()], None));
    }

    #[test]
    fn a_schedule_asks_nobody_and_outlives_the_deadline_of_its_maker() {
        let of_maker = JobRights { approval: ApprovalMode::Wait, ..strict() };
        assert_eq!(of_maker.of_schedule(), JobRights { deadline_ms: None, ..strict() });
    }

    #[test]
    fn another_answer_keeps_what_protects_and_gets_new_time_and_tokens() {
        let wide = JobRights::new(ToolChoice::Default, 15, 60);
        let again = wide.clone().of_other_answer(strict());
        let kept = JobRights { max_steps: 15, timeout_s: 60, approval: ApprovalMode::Wait, ..strict() };
        let unbound = JobRights { deadline_ms: None, max_total_tokens: None, max_cost_micros: None, ..kept };
        assert_eq!(again, unbound);
        let none = JobRights { tools: ToolChoice::All(false), ..wide.clone() };
        assert_eq!(none.clone().of_other_answer(strict()).tools, ToolChoice::All(false));
        assert_eq!(wide.of_other_answer(none).tools, ToolChoice::Default, "the user turns tools on");
    }

    #[test]
    fn a_tool_with_the_name_of_a_group_names_no_group() {
        assert_eq!(ToolChoice::of_tools(["all".to_owned()]), ToolChoice::All(false));
    }
}
