//! Errands of models, carried out by the store: what a job's model asks for is asked as the job itself was. Owns what a
//! child takes over from its parent, and the account's quota; refuses whatever names another user's (P7).

use crate::config::Config;
use crate::domain::account::AuthMode;
use crate::domain::id::{IdGenerator, JobId, ScheduleId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::{ApprovalMode, Job, JobOrigin, JobSpec, OnDisconnect, Priority};
use crate::domain::message::Message;
use crate::domain::schedule::{Schedule, ScheduledRequest};
use crate::ports::{
    ACCOUNT_DAY_MS, Accounts, BackgroundJobs, BackgroundTask, Clock, Entropy, Idempotent, JobServiceError,
    JobServices, NewJob, NewSchedule, ScheduleQuery, ScheduleStatus, Schedules, Store, ToolCaller, Users,
};
use crate::store::RedbStore;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Behind chats, as batches are.
const PRIORITY: u64 = 7;

/// What of the configuration concerns errands.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    has_quotas: bool,
    spawned_jobs: u64,
    schedules: u64,
    metadata_pairs: usize,
}

/// Errands over the store.
pub(super) struct StoredErrands {
    store: Arc<RedbStore>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    mint: IdGenerator,
    bounds: Bounds,
}

impl StoredErrands {
    pub(super) fn new(
        config: &Config,
        store: &Arc<RedbStore>,
        clock: &Arc<dyn Clock>,
        entropy: &Arc<dyn Entropy>,
    ) -> Self {
        let bounds = Bounds {
            has_quotas: config.auth_mode != AuthMode::Single,
            spawned_jobs: config.limits.spawned_jobs,
            schedules: config.limits.schedules,
            metadata_pairs: config.limits.metadata_pairs,
        };
        let (store, clock, entropy) = (Arc::clone(store), Arc::clone(clock), Arc::clone(entropy));
        Self { store, clock, entropy, mint: IdGenerator::default(), bounds }
    }

    fn parent(&self, asker: &ToolCaller) -> Result<JobSpec, JobServiceError> {
        self.store.spec(asker.user, asker.job)?.ok_or(JobServiceError::NoAsker)
    }

    /// The bounds of the account that are looked at whenever work is handed in.
    fn check_quota(&self, user: UserId) -> Result<(), JobServiceError> {
        if !self.bounds.has_quotas {
            return Ok(());
        }
        let quota = self.store.account(user)?.map(|account| account.quota).unwrap_or_default();
        if let Some(most) = quota.unfinished_jobs
            && self.store.unfinished_count(user, most)? >= most
        {
            let message = format!("this account has {most} unfinished jobs, as many as it may have");
            return Err(JobServiceError::Quota(message));
        }
        if let Some(most) = quota.tokens_per_day {
            let today = u32::try_from(self.clock.now_ms() / ACCOUNT_DAY_MS).unwrap_or(u32::MAX);
            let lines = self.store.usage(user, today, today)?;
            let spent = lines.iter().fold(0_u64, |sum, line| sum.saturating_add(line.usage.total_tokens));
            if spent >= most {
                return Err(JobServiceError::Quota(format!(
                    "this account's {most} tokens of today are used up"
                )));
            }
        }
        Ok(())
    }

    /// As many of these labels as there is room for.
    fn labels(&self, pairs: [(&str, String); 2]) -> BTreeMap<String, String> {
        let pairs = pairs.into_iter().take(self.bounds.metadata_pairs);
        pairs.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn fresh_bits(&self, now_ms: u64) -> u128 {
        self.mint.mint(now_ms, self.entropy.random())
    }
}

/// What a child takes over: everything but who waits for it and when it runs. It has the whole of its parent's
/// `max_total_tokens`, whatever the parent has spent: `limits.spawned_jobs` and the account's quota bound all of them.
fn inherited(parent: JobSpec, said: String) -> JobSpec {
    JobSpec {
        input: vec![Message::user(said)],
        run_at_ms: None,
        max_attempts: 1,
        on_disconnect: OnDisconnect::Continue,
        webhook_url: None,
        ..parent
    }
}

/// One call is one job, however often it is made: no client's key is made like this one.
fn key_of(asker: &ToolCaller) -> IdempotencyKey {
    let digest = Sha256::new()
        .chain_update("spawn\0")
        .chain_update(asker.job.to_bytes())
        .chain_update(asker.id_ref.as_bytes())
        .finalize();
    IdempotencyKey { key: digest.into(), fingerprint: digest.into() }
}

/// What a schedule's clients are shown of it, as if one of them had written it.
fn as_given(spec: &JobSpec, message: &str) -> Map<String, Value> {
    let mut given = Map::new();
    given.insert("input".to_owned(), Value::from(message));
    given.insert("model".to_owned(), Value::from(spec.model.as_str()));
    given.insert("approval".to_owned(), serde_json::to_value(spec.approval).unwrap_or_default());
    if let Some(id) = &spec.conversation_id {
        given.insert("conversation_id".to_owned(), Value::from(id.as_str()));
    }
    if let Some(id) = spec.project_id {
        given.insert("project_id".to_owned(), Value::from(id.to_string()));
    }
    given
}

impl JobServices for StoredErrands {
    fn spawn(&self, asker: &ToolCaller, errand: BackgroundTask) -> Result<Job, JobServiceError> {
        let key = key_of(asker);
        // What comes back is no new work.
        if !self.store.is_known(asker.user, &key.key)? {
            self.check_quota(asker.user)?;
        }
        let parent = self.parent(asker)?;
        let in_existing = parent.conversation_id.is_some();
        let BackgroundTask { task, label, tools } = errand;
        let said = format!("[Background task '{label}'] {task}");
        let spec = JobSpec {
            tools,
            priority: Priority::new(PRIORITY).unwrap_or(Priority::DEFAULT),
            metadata: self.labels([("label", label), ("spawned_by", asker.job.to_string())]),
            origin: JobOrigin::Agent { parent: asker.job },
            ..inherited(parent, said)
        };
        let created_at_ms = self.clock.now_ms();
        let id = JobId::from_bits(self.fresh_bits(created_at_ms));
        let job = NewJob { id, user: asker.user, created_at_ms, spec, in_existing };
        match self.store.spawn(job, key, self.bounds.spawned_jobs).wait()? {
            Idempotent::New(job) | Idempotent::Replayed(job) => Ok(job),
        }
    }

    fn spawned(&self, asker: &ToolCaller) -> Result<Vec<Job>, JobServiceError> {
        let here = self.parent(asker)?.conversation_id;
        let mut jobs = self.store.spawned(asker.user)?;
        jobs.retain(|job| match &here {
            Some(here) => job.conversation_id.as_ref() == Some(here),
            None => job.origin.parent() == Some(asker.job),
        });
        Ok(jobs)
    }

    fn cancel(&self, asker: &ToolCaller, job: JobId) -> Result<Option<Job>, JobServiceError> {
        let found = self.store.job(asker.user, job)?;
        if found.is_none_or(|job| job.origin.parent().is_none() || job.id == asker.job) {
            return Ok(None);
        }
        Ok(Store::cancel(self.store.as_ref(), asker.user, job).wait()?)
    }

    fn schedule(&self, asker: &ToolCaller, plan: NewSchedule) -> Result<Schedule, JobServiceError> {
        self.check_quota(asker.user)?;
        let parent = self.parent(asker)?;
        let NewSchedule { name, timing, message, tools } = plan;
        let now_ms = self.clock.now_ms();
        let id = ScheduleId::from_bits(self.fresh_bits(now_ms));
        let labels = self.labels([("schedule_id", id.to_string()), ("scheduled_by", asker.job.to_string())]);
        let spec = JobSpec {
            tools,
            metadata: labels,
            // Nobody is there when it runs.
            approval: ApprovalMode::AutoDeny,
            ..inherited(parent, message.clone())
        };
        let given = as_given(&spec, &message);
        let schedule = Schedule::new(id, asker.user, name, timing, now_ms);
        let stored =
            self.store.put(schedule, ScheduledRequest { spec, given }, self.bounds.schedules).wait()?;
        Ok(stored)
    }

    fn schedules(
        &self,
        asker: &ToolCaller,
        limit: usize,
    ) -> Result<(Vec<ScheduleStatus>, bool), JobServiceError> {
        let query = ScheduleQuery { user: asker.user, before: None, limit };
        let page = Schedules::schedules(self.store.as_ref(), &query)?;
        Ok((page.schedules, page.has_more))
    }

    fn unschedule(&self, asker: &ToolCaller, id: ScheduleId) -> Result<bool, JobServiceError> {
        Ok(self.store.remove(asker.user, id).wait()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_one_key_and_no_other_call_has_it() {
        let asker = |job, id_ref: &str| ToolCaller {
            user: UserId::SINGLE,
            job: JobId::from_bits(job),
            id_ref: id_ref.to_owned(),
        };
        let keys =
            [asker(1, "call_1"), asker(1, "call_2"), asker(2, "call_1")].map(|asker| key_of(&asker).key);
        assert_eq!(keys[0], key_of(&asker(1, "call_1")).key);
        assert!(keys[0] != keys[1] && keys[0] != keys[2] && keys[1] != keys[2]);
    }
}
