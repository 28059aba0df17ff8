//! Rules that keep schedules from firing: quotas, accounts, pauses; and runs out of turn.

use super::{HOUR_MS, MOST, START_MS, ScheduleSetup, cron, every, order, schedule};
use crate::store_contract::users::newcomer;
use crate::support::store::{ANN, BOB, done, id};
use nanoclaw::domain::account::{Quota, QuotaKind};
use nanoclaw::domain::id::ScheduleId;
use nanoclaw::domain::job::{JobOrigin, JobStatus};
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::schedule::{Schedule, SkippedRun};
use nanoclaw::ports::{AccountChange, Clock, NodeStore, ScheduleError, SubmitError};
use std::sync::Arc;

/// The store of a user with these quotas.
fn set_quota(store: &Arc<dyn NodeStore>, quota: Quota) {
    let change = AccountChange { quota: Some(quota), ..AccountChange::default() };
    store.change_account(ANN, change).wait().unwrap();
}

#[test]
fn p8_a_schedule_over_its_quota_skips_its_run_and_tries_the_next_one() {
    let mut setup = ScheduleSetup::new();
    let often = setup.put(1, every(60));
    set_quota(&setup.store, Quota { unfinished_jobs: Some(1), ..Quota::default() });
    setup.clocks.pass(60_000);
    assert_eq!(setup.tick(), 1);
    setup.clocks.pass(60_000);
    assert_eq!((setup.tick(), setup.jobs()), (0, 1), "the first job has not ended");
    let now_ms = setup.clocks.now_ms();
    let seen = setup.read(often);
    assert_eq!(seen.last_skip, Some(SkippedRun { at_ms: now_ms, quota: QuotaKind::UnfinishedJobs }));
    assert_eq!((seen.runs, seen.next_run_ms), (1, Some(now_ms + 60_000)), "tried again at its next time");
    let lease = setup.store.claim(1).wait().unwrap().remove(0);
    setup.store.finish(lease.fence(), vec![], done(lease.job.id, "x")).wait().unwrap();
    setup.clocks.pass(60_000);
    assert_eq!((setup.tick(), setup.read(often).runs), (1, 2));
}

#[test]
fn p8_schedules_due_together_are_counted_together() {
    let mut setup = ScheduleSetup::new();
    for number in 1..=5 {
        setup.put(number, every(60));
    }
    set_quota(&setup.store, Quota { unfinished_jobs: Some(2), ..Quota::default() });
    setup.clocks.pass(60_000);
    assert_eq!((setup.tick(), setup.jobs()), (2, 2));
}

#[test]
fn schedules_of_a_disabled_account_make_no_jobs() {
    let setup = ScheduleSetup::new();
    let named = |name| newcomer(name);
    setup.store.register(named("root")).wait().unwrap();
    let user = setup.store.register(named("ann")).wait().unwrap().id;
    setup
        .store
        .put(Schedule { user, ..schedule(1, every(1), setup.clocks.now_ms()) }, order(), 9)
        .wait()
        .unwrap();
    let turn = |is_active| {
        let change = AccountChange { is_active: Some(is_active), ..AccountChange::default() };
        setup.store.change_account(user, change).wait().unwrap();
        setup.clocks.pass(2_000);
        setup
            .store
            .fire_due((1..=3).map(|n| id(n + u128::from(is_active) * 10)).collect())
            .wait()
            .unwrap()
            .jobs
            .len()
    };
    assert_eq!((turn(false), turn(true)), (0, 1));
}

#[test]
fn a_paused_schedule_never_fires_and_goes_on_without_making_up_for_missed_runs() {
    let setup = ScheduleSetup::new();
    let hourly = setup.put(1, cron("0 * * * *"));
    assert_eq!(setup.store.set_paused(BOB, hourly, true).wait(), Ok(false), "it is not his");
    assert_eq!(setup.store.set_paused(ANN, hourly, true).wait(), Ok(true));
    let mut setup = setup.crash();
    assert_eq!((setup.store.next_run_ms(), setup.read(hourly).is_paused), (Ok(None), true));
    setup.clocks.pass(3 * HOUR_MS + 60_000);
    assert_eq!((setup.tick(), setup.jobs()), (0, 0));
    for _ in 0..2 {
        assert_eq!(setup.store.set_paused(ANN, hourly, false).wait(), Ok(true));
    }
    assert_eq!(setup.read(hourly).next_run_ms, Some(START_MS + 4 * HOUR_MS));
    assert_eq!((setup.tick(), setup.jobs()), (0, 0));
    setup.clocks.pass(HOUR_MS);
    assert_eq!((setup.tick(), setup.tick(), setup.jobs()), (1, 0, 1));
    assert_eq!(setup.store.set_paused(ANN, ScheduleId::from_bits(99), true).wait(), Ok(false));
}

#[test]
fn a_schedule_that_runs_now_makes_one_job_and_keeps_its_next_run() {
    let mut setup = ScheduleSetup::new();
    let hourly = setup.put(1, cron("0 * * * *"));
    assert_eq!(setup.store.run_now(BOB, hourly, id(7)).wait(), Ok(None), "it is not his");
    let job = setup.store.run_now(ANN, hourly, id(7)).wait().unwrap().expect("a job");
    assert_eq!((job.id, job.status), (id(7), JobStatus::Queued));
    assert_eq!(job.origin, JobOrigin::Schedule { schedule: Some(hourly) });
    let now = setup.read(hourly);
    assert_eq!((now.next_run_ms, now.last_due_ms), (Some(START_MS + HOUR_MS), None));
    assert_eq!((now.runs, now.last_job, now.last_run_ms), (1, Some(id(7)), Some(START_MS)));
    setup.store.set_paused(ANN, hourly, true).wait().unwrap();
    assert!(setup.store.run_now(ANN, hourly, id(8)).wait().unwrap().is_some(), "a paused one, too");
    assert_eq!(setup.read(hourly).next_run_ms, None);
    setup.store.set_paused(ANN, hourly, false).wait().unwrap();
    setup.clocks.pass(HOUR_MS);
    assert_eq!((setup.tick(), setup.jobs()), (1, 3), "the next run comes at its time");
}

#[test]
fn p8_a_run_now_obeys_the_queue_and_the_rules_for_schedules_of_models() {
    let limits = Limits { queue_jobs: 1, ..Limits::default() };
    let setup = ScheduleSetup::with(&limits);
    let of_model = schedule(1, every(3_600), START_MS).of_model();
    let made = setup.store.put(of_model, order(), MOST).wait().unwrap().id;
    setup.store.run_now(ANN, made, id(7)).wait().unwrap().expect("a job");
    assert_eq!(
        setup.store.run_now(ANN, made, id(8)).wait(),
        Err(ScheduleError::ModelScheduleHeld),
        "not beside its last job"
    );
    let other = setup.put(2, every(3_600));
    let full = setup.store.run_now(ANN, other, id(9)).wait();
    assert_eq!(full, Err(ScheduleError::Submit(SubmitError::QueueFull { limit: 1 })));
    assert_eq!(setup.read(other).runs, 0, "a refused run changes nothing");
}
