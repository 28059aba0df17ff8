//! Quotas of an account, checked when work is handed in. Work that was accepted is never cut off, so
//! requests at the same moment may pass a quota together.

use super::context::ServerContext;
use super::error::ApiError;
use super::v1::idempotency::KeyDigest;
use crate::domain::account::{AuthMode, Quota};
use crate::domain::id::UserId;
use crate::ports::{ACCOUNT_DAY_MS, Accounts, StoreError};
use std::sync::Arc;

/// `Retry-After` when too many jobs are unfinished, seconds.
const JOBS_RETRY_S: u64 = 5;

/// Fails if the user has used up a quota. A repeated `Idempotency-Key` is no new work. In single mode it
/// costs nothing; without a quota it reads one row.
pub(crate) async fn check(
    context: &ServerContext,
    user: UserId,
    key: Option<KeyDigest>,
) -> Result<(), ApiError> {
    if context.app.auth.mode == AuthMode::Single {
        return Ok(());
    }
    let (users, accounts) = (Arc::clone(&context.app.users), Arc::clone(&context.app.accounts));
    let now_ms = context.app.clock.now_ms();
    let counting = context.read(move |store| {
        if let Some(key) = key
            && store.is_known(user, &key.digest())?
        {
            return Ok(QuotaUse::default());
        }
        let quota = users.account(user)?.map(|account| account.quota).unwrap_or_default();
        let jobs = match quota.unfinished_jobs {
            Some(most) => store.unfinished_count(user, most)?,
            None => 0,
        };
        let tokens = match quota.tokens_per_day {
            Some(_) => tokens_today(accounts.as_ref(), user, now_ms)?,
            None => 0,
        };
        Ok(QuotaUse { quota, jobs, tokens })
    });
    counting.await?.check_use(now_ms)
}

/// Quota and use. Use without a quota is not counted.
#[derive(Default)]
struct QuotaUse {
    quota: Quota,
    jobs: u64,
    tokens: u64,
}

impl QuotaUse {
    fn check_use(&self, now_ms: u64) -> Result<(), ApiError> {
        if let Some(most) = self.quota.tokens_per_day.filter(|most| self.tokens >= *most) {
            let message = format!(
                "this account's {most} tokens of today are used up; the next day begins at midnight UTC"
            );
            return Err(ApiError::TooMany { message, retry_after_s: until_midnight_s(now_ms) });
        }
        if let Some(most) = self.quota.unfinished_jobs.filter(|most| self.jobs >= *most) {
            let message = format!("this account has {most} unfinished jobs, as many as it may have");
            return Err(ApiError::TooMany { message, retry_after_s: JOBS_RETRY_S });
        }
        Ok(())
    }
}

fn tokens_today(accounts: &dyn Accounts, user: UserId, now_ms: u64) -> Result<u64, StoreError> {
    let today = u32::try_from(now_ms / ACCOUNT_DAY_MS).unwrap_or(u32::MAX);
    let lines = accounts.usage(user, today, today)?;
    Ok(lines.iter().fold(0, |sum, line| sum.saturating_add(line.usage.total_tokens)))
}

fn until_midnight_s(now_ms: u64) -> u64 {
    ACCOUNT_DAY_MS.saturating_sub(now_ms % ACCOUNT_DAY_MS).div_ceil(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(quota: Quota, jobs: u64, tokens: u64) -> Option<(String, u64)> {
        match (QuotaUse { quota, jobs, tokens }).check_use(ACCOUNT_DAY_MS - 1_500) {
            Ok(()) => None,
            Err(ApiError::TooMany { message, retry_after_s }) => Some((message, retry_after_s)),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn p8_a_used_up_quota_is_named_with_retry_after() {
        let none = Quota::default();
        assert_eq!(checked(none, u64::MAX, u64::MAX), None);
        let tokens = Quota { tokens_per_day: Some(10), ..none };
        assert_eq!(checked(tokens, 9, 9), None);
        let (message, wait_s) = checked(tokens, 0, 10).expect("refused");
        assert!(message.contains("10 tokens") && wait_s == 2, "until midnight: {message}, {wait_s}");
        let jobs = Quota { unfinished_jobs: Some(2), ..none };
        assert_eq!(checked(jobs, 1, 9), None);
        assert!(checked(jobs, 2, 0).is_some_and(|(message, _)| message.contains("2 unfinished jobs")));
        assert!(checked(Quota { unfinished_jobs: Some(0), ..none }, 0, 0).is_some(), "zero is a bound");
    }

    #[test]
    fn midnight_is_a_day_away_at_the_start_of_a_day() {
        assert_eq!((until_midnight_s(0), until_midnight_s(ACCOUNT_DAY_MS - 1)), (86_400, 1));
    }
}
