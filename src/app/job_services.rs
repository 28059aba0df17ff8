//! Background jobs and schedules of models, over the store. A new job inherits from the job of its caller,
//! counts against the account's quota, and never reaches another user's data (P7).

use crate::config::Config;
use crate::domain::account::{AuthMode, Role};
use crate::domain::id::{ConversationId, IdGenerator, JobId, ScheduleId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::{Job, JobOrigin, JobSpec, OnDisconnect, Priority};
use crate::domain::job_conditions::JobConditions;
use crate::domain::job_rights::JobRights;
use crate::domain::message::Message;
use crate::domain::model_settings::ModelSettings;
use crate::domain::schedule::{Schedule, ScheduledRequest};
use crate::ports::{
    BackgroundTask, Clock, Entropy, Idempotent, JobServiceError, JobServices, MinInterval, NewJob,
    NewSchedule, NewWork, NodeStore, ScheduleQuery, ScheduleStatus, Schedules, Store, ToolCaller, WorkQuota,
};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;

/// After chats, like batches.
const PRIORITY: u64 = 7;

#[derive(Debug, Clone, Copy)]
struct JobServiceLimits {
    has_quotas: bool,
    spawned_jobs: u64,
    schedules: u64,
    /// For schedules of models, and for those of users without the role of an administrator.
    min_intervals: (MinInterval, MinInterval),
    metadata_pairs: usize,
}

pub(super) struct StoreJobServices {
    store: Arc<dyn NodeStore>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    ids: IdGenerator,
    limits: JobServiceLimits,
}

impl StoreJobServices {
    pub(super) fn new(
        config: &Config,
        store: &Arc<dyn NodeStore>,
        clock: &Arc<dyn Clock>,
        entropy: &Arc<dyn Entropy>,
    ) -> Self {
        let limits = JobServiceLimits {
            has_quotas: config.auth_mode != AuthMode::Single,
            spawned_jobs: config.limits.spawned_jobs,
            schedules: config.limits.schedules,
            min_intervals: (
                MinInterval::of_models(&config.limits),
                MinInterval::of_role(Role::User, &config.limits),
            ),
            metadata_pairs: config.limits.metadata_pairs,
        };
        let (store, clock, entropy) = (Arc::clone(store), Arc::clone(clock), Arc::clone(entropy));
        Self { store, clock, entropy, ids: IdGenerator::default(), limits }
    }

    fn parent(&self, caller: &ToolCaller) -> Result<JobSpec, JobServiceError> {
        self.store.spec(caller.user, caller.job)?.ok_or(JobServiceError::NoCaller)
    }

    /// Refuses new work if the account's quota is used up.
    fn check_quota(&self, user: UserId, new: NewWork) -> Result<(), JobServiceError> {
        if !self.limits.has_quotas {
            return Ok(());
        }
        let (store, now_ms) = (self.store.as_ref(), self.clock.now_ms());
        let quota = WorkQuota::read((store, store, store), user, now_ms)?;
        quota.admit(new, now_ms).map_err(|refusal| JobServiceError::Quota(refusal.to_string()))
    }

    /// A model may not pass the limit of its user.
    fn min_interval(&self, user: UserId) -> Result<MinInterval, JobServiceError> {
        let (of_models, of_users) = self.limits.min_intervals;
        let is_bound = self.limits.has_quotas
            && self.store.account(user)?.is_none_or(|account| account.role != Role::Admin);
        Ok(if is_bound { of_models.max(of_users) } else { of_models })
    }

    /// As many of these labels as `limits.metadata_pairs` allows.
    fn labels(&self, pairs: [(&str, String); 2]) -> BTreeMap<String, String> {
        let pairs = pairs.into_iter().take(self.limits.metadata_pairs);
        pairs.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn new_id_bits(&self, now_ms: u64) -> u128 {
        self.ids.mint(now_ms, self.entropy.random())
    }
}

/// The parent's settings for a new job with these rights, without the fields about its client and its time.
/// The rights bound each job; `limits.spawned_jobs` and the account's quota bound all jobs together.
fn inherited(parent: JobSpec, rights: JobRights, message: String) -> JobSpec {
    let spec = JobSpec {
        input: vec![Message::user(message)],
        run_at_ms: None,
        max_attempts: 1,
        on_disconnect: OnDisconnect::Continue,
        webhook_url: None,
        functions: Vec::new(),
        settings: ModelSettings::default(),
        is_plain: false,
        response: None,
        is_stored_completion: false,
        trace_parent: None,
        conditions: JobConditions::default(),
        ..parent
    };
    spec.with_rights(rights)
}

/// The idempotency key of a tool call: a repeated call returns the same job. No client can make such a key.
fn idempotency_key(caller: &ToolCaller) -> IdempotencyKey {
    let digest = Sha256::new()
        .chain_update("spawn\0")
        .chain_update(caller.job.to_bytes())
        .chain_update(caller.id_ref.as_bytes())
        .finalize();
    IdempotencyKey { key: digest.into(), fingerprint: digest.into() }
}

/// The request that a schedule shows, as if a client had sent it.
fn as_request(spec: &JobSpec, message: &str) -> Map<String, Value> {
    let mut request = Map::new();
    request.insert("input".to_owned(), Value::from(message));
    request.insert("model".to_owned(), Value::from(spec.model.as_str()));
    if let Some(strictness) = spec.strictness {
        request.insert("strictness".to_owned(), Value::from(strictness.name()));
    }
    request.insert("approval".to_owned(), serde_json::to_value(spec.approval).unwrap_or_default());
    if let Some(id) = &spec.conversation_id {
        request.insert("conversation_id".to_owned(), Value::from(id.as_str()));
    }
    if let Some(id) = spec.project_id {
        request.insert("project_id".to_owned(), Value::from(id.to_string()));
    }
    request
}

/// Whether a caller in this conversation may see and cancel the job: a background job of the conversation,
/// or, without one, of the calling job itself.
fn is_visible(job: &Job, conversation: Option<&ConversationId>, caller: &ToolCaller) -> bool {
    let Some(parent) = job.origin.parent() else { return false };
    match conversation {
        Some(conversation) => job.conversation_id.as_ref() == Some(conversation) && job.id != caller.job,
        None => parent == caller.job,
    }
}

impl JobServices for StoreJobServices {
    fn spawn(&self, caller: &ToolCaller, task: BackgroundTask) -> Result<Job, JobServiceError> {
        let key = idempotency_key(caller);
        // A replayed job is not new work.
        if !self.store.is_known(caller.user, &key.key)? {
            self.check_quota(caller.user, NewWork::job(task.task.len()))?;
        }
        let parent = self.parent(caller)?;
        let (in_existing, trace_parent) = (parent.conversation_id.is_some(), parent.trace_parent);
        let BackgroundTask { task, label, rights } = task;
        let message = format!("[Background task '{label}'] {task}");
        let spec = JobSpec {
            priority: Priority::new(PRIORITY).unwrap_or(Priority::DEFAULT),
            metadata: self.labels([("label", label), ("spawned_by", caller.job.to_string())]),
            origin: JobOrigin::Agent { parent: caller.job },
            trace_parent,
            ..inherited(parent, rights, message)
        };
        let created_at_ms = self.clock.now_ms();
        let id = JobId::from_bits(self.new_id_bits(created_at_ms));
        let job = NewJob { id, user: caller.user, created_at_ms, spec, in_existing };
        match self.store.spawn(job, key, self.limits.spawned_jobs).wait()? {
            Idempotent::New(job) | Idempotent::Replayed(job) => Ok(job),
        }
    }

    fn spawned(&self, caller: &ToolCaller) -> Result<Vec<Job>, JobServiceError> {
        let conversation = self.parent(caller)?.conversation_id;
        let mut jobs = self.store.spawned(caller.user)?;
        jobs.retain(|job| is_visible(job, conversation.as_ref(), caller));
        Ok(jobs)
    }

    fn cancel(&self, caller: &ToolCaller, job: JobId) -> Result<Option<Job>, JobServiceError> {
        let conversation = self.parent(caller)?.conversation_id;
        let stored_job = self.store.job(caller.user, job)?;
        if !stored_job.is_some_and(|job| is_visible(&job, conversation.as_ref(), caller)) {
            return Ok(None);
        }
        Ok(Store::cancel(self.store.as_ref(), caller.user, job).wait()?)
    }

    fn schedule(&self, caller: &ToolCaller, new: NewSchedule) -> Result<Schedule, JobServiceError> {
        self.check_quota(caller.user, NewWork::job(new.message.len()))?;
        let parent = self.parent(caller)?;
        let NewSchedule { name, timing, message, rights } = new;
        let now_ms = self.clock.now_ms();
        self.min_interval(caller.user)?.check(&timing, now_ms)?;
        let id = ScheduleId::from_bits(self.new_id_bits(now_ms));
        let labels = self.labels([("schedule_id", id.to_string()), ("scheduled_by", caller.job.to_string())]);
        let spec = JobSpec { metadata: labels, ..inherited(parent, rights, message.clone()) };
        let request = as_request(&spec, &message);
        let schedule = Schedule::new(id, caller.user, name, timing, now_ms).of_model();
        let stored = self
            .store
            .put(schedule, ScheduledRequest { spec, given: request }, self.limits.schedules)
            .wait()?;
        Ok(stored)
    }

    fn schedules(
        &self,
        caller: &ToolCaller,
        limit: usize,
    ) -> Result<(Vec<ScheduleStatus>, bool), JobServiceError> {
        let query = ScheduleQuery { user: caller.user, before: None, limit };
        let page = Schedules::schedules(self.store.as_ref(), &query)?;
        Ok((page.schedules, page.has_more))
    }

    fn unschedule(&self, caller: &ToolCaller, id: ScheduleId) -> Result<bool, JobServiceError> {
        Ok(self.store.remove(caller.user, id).wait()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::tool::{Strictness, ToolChoice};

    #[test]
    fn a_new_job_has_the_rights_that_it_is_given_and_none_of_its_parent() {
        let parent = JobSpec::new("m".to_owned(), Vec::new(), 15, 60);
        let rights = JobRights {
            approval_tools: vec!["pay".to_owned()],
            max_tool_calls: Some(1),
            strictness: Some(Strictness::Strict),
            max_total_tokens: Some(5),
            ..JobRights::new(ToolChoice::All(false), 2, 3)
        };
        assert_eq!(inherited(parent, rights.clone(), "x".to_owned()).rights(), rights);
    }

    #[test]
    fn every_tool_call_has_its_own_idempotency_key() {
        let caller = |job, id_ref: &str| ToolCaller {
            user: UserId::SINGLE,
            job: JobId::from_bits(job),
            id_ref: id_ref.to_owned(),
        };
        let keys = [caller(1, "call_1"), caller(1, "call_2"), caller(2, "call_1")]
            .map(|caller| idempotency_key(&caller).key);
        assert_eq!(keys[0], idempotency_key(&caller(1, "call_1")).key);
        assert!(keys[0] != keys[1] && keys[0] != keys[2] && keys[1] != keys[2]);
    }
}
