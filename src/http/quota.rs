//! Checks an account's quota when it submits work. Accepted work is never cut off, so requests at the same
//! moment may pass a quota together, unless the store checks again when it accepts them.

use super::context::ServerContext;
use super::error::ApiError;
use super::v1::idempotency::KeyDigest;
use crate::domain::account::AuthMode;
use crate::domain::id::UserId;
use crate::ports::{NewWork, QuotaRefusal, WorkQuota};
use std::sync::Arc;

/// `Retry-After` when too many jobs are unfinished, seconds.
const JOBS_RETRY_S: u64 = 5;
/// The same when too many bytes are stored: retention runs once a minute.
const BYTES_RETRY_S: u64 = 60;

/// Fails if the new work would exceed the account's quota. A repeated `Idempotency-Key` is no new
/// work. In single mode nothing is read.
pub(crate) async fn check(
    context: &ServerContext,
    user: UserId,
    key: Option<KeyDigest>,
    new: NewWork,
) -> Result<(), ApiError> {
    if context.app.auth.mode == AuthMode::Single {
        return Ok(());
    }
    let (users, accounts) = (Arc::clone(&context.app.users), Arc::clone(&context.app.accounts));
    let now_ms = context.app.clock.now_ms();
    let counting = context.read(user, move |store| {
        if let Some(key) = key
            && store.is_known(user, &key.digest())?
        {
            return Ok(WorkQuota::default());
        }
        WorkQuota::read((store, users.as_ref(), accounts.as_ref()), user, now_ms)
    });
    counting.await?.admit(new, now_ms).map_err(refused)
}

/// The response to work that a quota refuses.
pub(crate) fn refused(refusal: QuotaRefusal) -> ApiError {
    let (message, retry_after_s) = match refusal {
        QuotaRefusal::Tokens { retry_after_s, .. } | QuotaRefusal::Cost { retry_after_s, .. } => {
            (format!("{refusal}; the next day begins at midnight UTC"), retry_after_s)
        }
        QuotaRefusal::Jobs { .. } | QuotaRefusal::NewJobs { .. } => (refusal.to_string(), JOBS_RETRY_S),
        QuotaRefusal::Bytes { .. } | QuotaRefusal::NewBytes { .. } => (
            format!("{refusal}; delete jobs, batches or conversations that are no longer needed"),
            BYTES_RETRY_S,
        ),
    };
    ApiError::TooMany { message, retry_after_s }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::account::Quota;
    use crate::domain::usage::Usage;
    use crate::ports::ACCOUNT_DAY_MS;

    fn judged(quota: Quota, jobs: u64, tokens: u64) -> Option<(String, u64)> {
        let usage_today = Usage { cost_micros: tokens.saturating_mul(2), ..Usage::new(tokens, 0) };
        let used = WorkQuota { quota, unfinished_jobs: jobs, usage_today, stored_bytes: 0 };
        match used.admit(NewWork::job(0), ACCOUNT_DAY_MS - 1_500).map_err(refused) {
            Ok(()) => None,
            Err(ApiError::TooMany { message, retry_after_s }) => Some((message, retry_after_s)),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn p8_an_exhausted_quota_is_named_with_its_retry_time() {
        let none = Quota::default();
        assert_eq!(judged(none, u64::MAX, u64::MAX), None);
        let tokens = Quota { tokens_per_day: Some(10), ..none };
        assert_eq!(judged(tokens, 9, 9), None);
        let (message, wait_s) = judged(tokens, 0, 10).expect("refused");
        assert!(message.contains("10 tokens") && wait_s == 2, "until midnight: {message}, {wait_s}");
        let cost = Quota { cost_micros_per_day: Some(20), ..none };
        assert_eq!(judged(cost, 9, 9), None);
        let (message, wait_s) = judged(cost, 0, 10).expect("refused");
        assert!(message.contains("20 millionths") && wait_s == 2, "until midnight: {message}, {wait_s}");
        let jobs = Quota { unfinished_jobs: Some(2), ..none };
        assert_eq!(judged(jobs, 1, 9), None);
        assert!(judged(jobs, 2, 0).is_some_and(|(message, _)| message.contains("2 unfinished jobs")));
        assert!(judged(Quota { unfinished_jobs: Some(0), ..none }, 0, 0).is_some(), "zero is a bound");
    }

    #[test]
    fn the_token_quota_resets_at_midnight() {
        let quota = Quota { tokens_per_day: Some(0), ..Quota::default() };
        let wait_s =
            |now_ms| match (WorkQuota { quota, ..WorkQuota::default() }).admit(NewWork::job(0), now_ms) {
                Err(QuotaRefusal::Tokens { retry_after_s, .. }) => retry_after_s,
                other => panic!("{other:?}"),
            };
        assert_eq!((wait_s(0), wait_s(ACCOUNT_DAY_MS - 1)), (86_400, 1));
    }

    #[test]
    fn p8_jobs_submitted_together_are_checked_together() {
        let quota = Quota { unfinished_jobs: Some(2), ..Quota::default() };
        let used = WorkQuota { quota, unfinished_jobs: 1, ..WorkQuota::default() };
        let jobs = |jobs| NewWork { jobs, bytes: 0 };
        assert_eq!((used.admit(jobs(1), 0), used.admit(jobs(2), 0).is_err()), (Ok(()), true));
        let told = used.admit(jobs(50_000), 0).map_err(refused).expect_err("refused").to_string();
        assert!(told.contains("50000 new jobs") && told.contains("may have 2"), "{told}");
    }

    #[test]
    fn p8_stored_bytes_bind_what_has_no_job_as_well() {
        let quota = Quota { stored_bytes: Some(100), unfinished_jobs: Some(0), ..Quota::default() };
        let used = |stored_bytes| WorkQuota { quota, stored_bytes, ..WorkQuota::default() };
        assert_eq!((used(40).admit(NewWork::bytes(60), 0)), Ok(()), "the quota of jobs does not bind it");
        let told = used(41).admit(NewWork::bytes(60), 0).map_err(refused).expect_err("refused").to_string();
        assert!(told.contains("60 new bytes") && told.contains("stores 41, and may store 100"), "{told}");
        assert!(told.contains("delete jobs, batches or conversations"), "{told}");
        assert!(used(100).admit(NewWork::bytes(0), 0).is_err(), "a full quota refuses everything");
    }
}
