//! Schedules with the real store and the real scheduler under clocks that the test sets.

mod rules;

use crate::store_contract::fixture::StorePlace;
use crate::support::store::{ANN, BOB, done, id, job};
use nanoclaw::domain::id::{JobId, ScheduleId};
use nanoclaw::domain::job::JobStatus;
use nanoclaw::domain::job_filter::JobFilter;
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::schedule::{Schedule, ScheduledRequest};
use nanoclaw::domain::timing::{Cron, Timing};
use nanoclaw::engine::scheduler::{Scheduler, SchedulerPorts};
use nanoclaw::ports::{
    Batches, CancelToken, Clock, Entropy, JobQuery, NodeStore, ScheduleError, ScheduleQuery, Schedules, Store,
};
use nanoclaw::store::options::StoreOptions;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// 15 January 2027, 08:00:00 UTC.
const START_MS: u64 = 1_800_000_000_000;
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
const TEN_YEARS_MS: u64 = 3_652 * DAY_MS;
const MOST: u64 = 1_000;

/// A monotonic clock and a wall clock that can be set.
#[derive(Default)]
struct Clocks {
    wall_ms: AtomicU64,
    monotonic_ms: AtomicU64,
}

impl Clocks {
    /// Advances both clocks.
    fn pass(&self, ms: u64) {
        self.wall_ms.fetch_add(ms, Ordering::SeqCst);
        self.monotonic_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Sets the wall clock.
    fn set(&self, ms: u64) {
        self.wall_ms.store(ms, Ordering::SeqCst);
    }
}

impl Clock for Clocks {
    fn now_ms(&self) -> u64 {
        self.wall_ms.load(Ordering::SeqCst)
    }
    fn monotonic_ms(&self) -> u64 {
        self.monotonic_ms.load(Ordering::SeqCst)
    }
    fn sleep(&self, stop: &CancelToken, timeout: Duration) {
        stop.wait(timeout);
    }
}

struct Rising(AtomicU64);

impl Entropy for Rising {
    fn random(&self) -> u128 {
        u128::from(self.0.fetch_add(1, Ordering::SeqCst))
    }
}

struct ScheduleSetup {
    store: Arc<dyn NodeStore>,
    clocks: Arc<Clocks>,
    scheduler: Scheduler,
    place: StorePlace,
}

impl ScheduleSetup {
    fn new() -> Self {
        Self::with(&Limits::default())
    }

    /// A setup whose store is a file.
    fn in_file() -> Self {
        let clocks = Arc::new(Clocks::default());
        clocks.set(START_MS);
        let mut setup = Self::open(StorePlace::file(), clocks, &Limits::default());
        setup.tick();
        setup
    }

    fn with(limits: &Limits) -> Self {
        let clocks = Arc::new(Clocks::default());
        clocks.set(START_MS);
        let mut setup = Self::open(StorePlace::fresh(), clocks, limits);
        setup.tick();
        setup
    }

    fn open(place: StorePlace, clocks: Arc<Clocks>, limits: &Limits) -> Self {
        let clock = Arc::clone(&clocks) as Arc<dyn Clock>;
        let store = place.open(&StoreOptions::default(), limits, Arc::clone(&clock));
        let schedules: Arc<dyn Schedules> = Arc::<dyn NodeStore>::clone(&store);
        let entropy = Arc::new(Rising(AtomicU64::new(clocks.now_ms() % 1_000_003)));
        let batches: Arc<dyn Batches> = Arc::<dyn NodeStore>::clone(&store);
        let jobs: Arc<dyn Store> = Arc::<dyn NodeStore>::clone(&store);
        let timer = Scheduler::new(SchedulerPorts { schedules, batches, jobs, clock, entropy });
        Self { store, clocks, scheduler: timer, place }
    }

    /// The store after a crash now.
    fn crash(&self) -> Self {
        Self::open(self.place.after_crash(), Arc::clone(&self.clocks), &Limits::default())
    }

    fn put(&self, number: u128, timing: Timing) -> ScheduleId {
        self.store.put(schedule(number, timing, self.clocks.now_ms()), order(), MOST).wait().unwrap().id
    }

    fn tick(&mut self) -> usize {
        self.scheduler.tick().unwrap().fired
    }

    fn read(&self, id: ScheduleId) -> Schedule {
        self.store.schedule(ANN, id).unwrap().expect("the schedule").0.schedule
    }

    fn jobs(&self) -> usize {
        self.store
            .jobs(&JobQuery { user: ANN, status: None, filter: JobFilter::NONE, before: None, limit: 10_000 })
            .unwrap()
            .jobs
            .len()
    }
}

pub(crate) fn schedule(number: u128, timing: Timing, now_ms: u64) -> Schedule {
    Schedule {
        id: ScheduleId::from_bits(number),
        user: ANN,
        name: None,
        next_run_ms: timing.first(now_ms),
        timing,
        created_at_ms: now_ms,
        armed_at_ms: now_ms,
        last_due_ms: None,
        last_run_ms: None,
        last_job: None,
        runs: 0,
        model_tokens: None,
        last_skip: None,
        recomputed_ms: None,
        is_paused: false,
    }
}

pub(crate) fn order() -> ScheduledRequest {
    let given: Map<String, Value> = json!({"input": "again"}).as_object().unwrap().clone();
    ScheduledRequest { spec: job(1, ANN).spec, given }
}

fn cron(expression: &str) -> Timing {
    Timing::Cron(Box::new(Cron::new(expression, "UTC").unwrap()))
}

pub(crate) fn every(seconds: u64) -> Timing {
    Timing::Every { seconds, anchor_ms: START_MS }
}

#[test]
fn p1_a_due_run_makes_one_job_and_schedules_the_next_run() {
    let mut setup = ScheduleSetup::new();
    let hourly = setup.put(7, cron("0 * * * *"));
    assert_eq!((setup.tick(), setup.jobs()), (0, 0));
    setup.clocks.pass(HOUR_MS);
    assert_eq!((setup.tick(), setup.tick(), setup.jobs()), (1, 0, 1));
    let (standing, order) = setup.store.schedule(ANN, hourly).unwrap().unwrap();
    let now = &standing.schedule;
    assert_eq!(
        (now.runs, now.last_due_ms, now.next_run_ms),
        (1, Some(START_MS + HOUR_MS), Some(START_MS + 2 * HOUR_MS))
    );
    assert_eq!((standing.last_status, &order.given["input"]), (Some(JobStatus::Queued), &json!("again")));
    let lease = setup.store.claim(1).wait().unwrap().pop().expect("its job");
    assert_eq!((Some(lease.job.id), &lease.spec.input), (now.last_job, &order.spec.input));
    setup.store.finish(lease.fence(), vec![], done(lease.job.id, "x")).wait().unwrap();
    let ended = setup.store.schedule(ANN, hourly).unwrap().unwrap().0;
    assert_eq!(ended.last_status, Some(JobStatus::Succeeded), "the last outcome");
    let next = setup.crash();
    assert_eq!((next.read(hourly), next.jobs()), (ended.schedule, 1), "the schedule is durable");
}

#[test]
fn missed_runs_of_a_week_are_made_up_once() {
    let setup = ScheduleSetup::new();
    let (hourly, often, once) =
        (setup.put(1, cron("@hourly")), setup.put(2, every(1)), setup.put(3, Timing::At(START_MS + 5)));
    setup.clocks.pass(7 * DAY_MS);
    let mut next = setup.crash();
    assert_eq!((next.tick(), next.tick(), next.jobs()), (3, 0, 3));
    let now = START_MS + 7 * DAY_MS;
    assert_eq!(next.read(hourly).next_run_ms, Some(now + HOUR_MS));
    assert_eq!(next.read(often).next_run_ms, Some(now + 1_000));
    let once = next.read(once);
    assert_eq!((once.next_run_ms, once.runs), (None, 1), "a finished schedule stays readable");
    next.clocks.pass(1_000);
    assert_eq!(next.tick(), 1);
}

#[test]
fn a_clock_set_ahead_and_back_by_an_hour_fires_each_run_once() {
    let mut setup = ScheduleSetup::new();
    let (hourly, daily) = (setup.put(1, cron("0 * * * *")), setup.put(2, cron("30 9 * * *")));
    setup.clocks.set(START_MS + 100 * 60_000); // 09:40
    assert_eq!((setup.tick(), setup.tick()), (2, 0), "9:00 and 9:30, once each");
    setup.clocks.set(START_MS + 40 * 60_000); // 08:40
    assert_eq!(setup.tick(), 0);
    assert_eq!(setup.read(hourly).next_run_ms, Some(START_MS + 2 * HOUR_MS));
    assert_eq!(setup.read(daily).next_run_ms, Some(START_MS + 90 * 60_000 + DAY_MS));
    setup.clocks.pass(HOUR_MS); // 09:40 again
    assert_eq!(setup.tick(), 0, "both have fired already");
    setup.clocks.pass(20 * 60_000);
    assert_eq!(setup.tick(), 1, "10:00");
}

#[test]
fn a_clock_ahead_for_a_moment_does_not_put_a_frequent_schedule_off() {
    let mut setup = ScheduleSetup::new();
    let often = setup.put(1, cron("*/10 * * * * *"));
    setup.clocks.pass(10_000);
    assert_eq!(setup.tick(), 1);
    assert_eq!(setup.read(often).recomputed_ms, None);
    setup.clocks.set(START_MS + 3 * HOUR_MS);
    assert_eq!(setup.tick(), 1, "schedules follow a wrong clock as well");
    setup.clocks.set(START_MS + 20_000);
    assert_eq!(setup.tick(), 0);
    assert_eq!(setup.read(often).next_run_ms, Some(START_MS + 30_000));
    assert_eq!(setup.read(often).recomputed_ms, Some(START_MS + 20_000), "and the schedule says so");
    setup.clocks.pass(10_000);
    assert_eq!(setup.tick(), 1);
}

#[test]
fn a_clock_set_back_delays_single_times_but_not_intervals() {
    let mut setup = ScheduleSetup::new();
    let (often, once) = (setup.put(1, every(10)), setup.put(2, Timing::At(START_MS + 60_000)));
    setup.clocks.pass(10_000);
    assert_eq!(setup.tick(), 1);
    setup.clocks.set(START_MS - HOUR_MS);
    assert_eq!(setup.tick(), 0);
    for _ in 0..3 {
        setup.clocks.pass(10_000);
        assert_eq!(setup.tick(), 1, "an interval runs on time");
    }
    assert_eq!((setup.read(often).runs, setup.read(once).runs), (4, 0));
    setup.clocks.set(START_MS + 60_000);
    assert_eq!(setup.tick(), 2);
    assert_eq!(setup.read(once).runs, 1, "not lost");
}

#[test]
fn a_clock_set_ahead_and_back_by_ten_years_loses_no_schedule() {
    let mut setup = ScheduleSetup::new();
    let (daily, often) = (setup.put(1, cron("0 9 * * *")), setup.put(2, every(60)));
    setup.clocks.set(START_MS + TEN_YEARS_MS);
    assert_eq!((setup.tick(), setup.tick()), (2, 0), "each once");
    setup.clocks.pass(2 * DAY_MS);
    assert_eq!(setup.tick(), 2, "schedules follow a wrong clock as well");
    let made = setup.put(3, cron("0 9 * * *"));
    setup.clocks.set(START_MS + 2 * DAY_MS);
    assert_eq!(setup.tick(), 0);
    let nine = START_MS + 2 * DAY_MS + HOUR_MS;
    assert_eq!(setup.read(daily).next_run_ms, Some(nine));
    assert_eq!(setup.read(made).next_run_ms, Some(nine), "a schedule created under the wrong clock");
    assert!(setup.read(often).next_run_ms.unwrap() <= START_MS + 2 * DAY_MS + 60_000);
    setup.clocks.pass(HOUR_MS);
    assert_eq!(setup.tick(), 3);
}

#[test]
fn a_clock_set_back_during_downtime_is_detected_at_the_start() {
    let mut setup = ScheduleSetup::new();
    let daily = setup.put(1, cron("0 9 * * *"));
    setup.clocks.set(START_MS + TEN_YEARS_MS);
    assert_eq!(setup.tick(), 1);
    setup.clocks.set(START_MS);
    let mut next = setup.crash();
    assert_eq!(next.tick(), 0);
    // Today's run has already fired under the wrong clock.
    assert_eq!(next.read(daily).next_run_ms, Some(START_MS + HOUR_MS + DAY_MS));
}

#[test]
fn p8_due_runs_wait_for_a_full_queue_and_many_fire_in_steps() {
    let limits = Limits { queue_jobs: 2, ..Limits::default() };
    let mut setup = ScheduleSetup::with(&limits);
    for number in 1..=3 {
        setup.put(number, every(60));
    }
    setup.clocks.pass(60_000);
    assert_eq!((setup.tick(), setup.tick(), setup.jobs()), (2, 0, 2));
    for lease in setup.store.claim(2).wait().unwrap() {
        setup.store.finish(lease.fence(), vec![], done(lease.job.id, "x")).wait().unwrap();
    }
    assert_eq!((setup.tick(), setup.tick()), (1, 0), "nothing was lost");
    let mut setup = ScheduleSetup::new();
    for number in 1..=150 {
        setup.put(number, every(60));
    }
    setup.clocks.pass(60_000);
    assert_eq!([setup.tick(), setup.tick(), setup.tick(), setup.tick()], [64, 64, 22, 0]);
}

#[test]
fn p7_p8_schedules_are_separate_and_limited_for_each_user() {
    let setup = ScheduleSetup::new();
    let ids: Vec<_> = (1..=3).map(|number| setup.put(number, every(60))).collect();
    let full = setup.store.put(schedule(4, every(60), START_MS), order(), 3).wait();
    assert_eq!(full, Err(ScheduleError::SchedulesFull { limit: 3 }));
    let theirs = Schedule { user: BOB, ..schedule(5, every(60), START_MS) };
    setup.store.put(theirs, order(), 3).wait().expect("bob has none yet");
    let page = |before, limit| {
        let page = setup.store.schedules(&ScheduleQuery { user: ANN, before, limit }).unwrap();
        (page.schedules.iter().map(|found| found.schedule.id).collect::<Vec<_>>(), page.has_more)
    };
    assert_eq!(page(None, 2), (vec![ids[2], ids[1]], true));
    assert_eq!(page(Some(ids[1]), 2), (vec![ids[0]], false));
    assert_eq!(setup.store.schedule(BOB, ids[0]), Ok(None));
    assert_eq!(setup.store.remove(BOB, ids[0]).wait(), Ok(false));
    assert_eq!(setup.store.remove(ANN, ids[0]).wait(), Ok(true));
    assert_eq!(setup.store.remove(ANN, ids[0]).wait(), Ok(false));
    assert_eq!(page(None, 9), (vec![ids[2], ids[1]], false));
    setup.store.put(schedule(6, every(60), START_MS), order(), 3).wait().expect("a schedule fits again");
}

#[test]
fn a_deleted_schedule_never_fires() {
    let mut setup = ScheduleSetup::new();
    let often = setup.put(1, every(1));
    setup.clocks.pass(1_000);
    assert_eq!(setup.tick(), 1);
    setup.store.remove(ANN, often).wait().unwrap();
    setup.clocks.pass(DAY_MS);
    assert_eq!((setup.tick(), setup.jobs(), setup.store.next_run_ms()), (0, 1, Ok(None)));
}

#[test]
fn an_unreadable_schedule_does_not_block_the_others() {
    let setup = ScheduleSetup::in_file();
    let (_broken, readable) = (setup.put(1, every(1)), setup.put(2, every(2)));
    setup.store.close();
    damage(&setup.place.path());
    setup.clocks.pass(2_000);
    let mut next = setup.crash();
    assert_eq!((next.tick(), next.tick(), next.read(readable).runs), (1, 0, 1));
    assert_eq!(next.store.remove(ANN, ScheduleId::from_bits(1)).wait(), Ok(true), "it can be deleted");
}

/// Damages the first schedule's row.
fn damage(path: &Path) {
    const SCHEDULES: redb::TableDefinition<'_, &[u8], &[u8]> = redb::TableDefinition::new("schedules");
    let database = redb::Database::open(path).unwrap();
    let writing = database.begin_write().unwrap();
    writing
        .open_table(SCHEDULES)
        .unwrap()
        .insert(ScheduleId::from_bits(1).to_bytes().as_slice(), b"\x01{}".as_slice())
        .unwrap();
    writing.commit().unwrap();
}

#[test]
fn a_file_without_schedule_tables_accepts_schedules() {
    let setup = ScheduleSetup::in_file();
    setup.store.close();
    let database = redb::Database::open(setup.place.path()).unwrap();
    let writing = database.begin_write().unwrap();
    let is_ours = |table: &redb::UntypedTableHandle| redb::TableHandle::name(table).starts_with("schedule");
    let tables: Vec<_> = writing.list_tables().unwrap().filter(is_ours).collect();
    assert_eq!(tables.len(), 4);
    for table in tables {
        assert!(writing.delete_table(table).unwrap());
    }
    writing.commit().unwrap();
    drop(database);
    let mut next = setup.crash();
    assert_eq!((next.tick(), next.store.next_run_ms()), (0, Ok(None)));
    assert_eq!(next.store.schedule(ANN, ScheduleId::from_bits(1)), Ok(None));
    let page = next.store.schedules(&ScheduleQuery { user: ANN, before: None, limit: 9 }).unwrap();
    assert!(page.schedules.is_empty());
    next.put(1, every(1));
    next.clocks.pass(1_000);
    assert_eq!(next.tick(), 1);
}

#[test]
fn unused_job_ids_make_no_jobs() {
    let setup = ScheduleSetup::new();
    setup.put(1, every(1));
    setup.clocks.pass(1_000);
    let fired = setup.store.fire_due((1..=5).map(id).collect()).wait().unwrap();
    assert_eq!(fired.jobs, [(ScheduleId::from_bits(1), JobId::from_bits(1))]);
    assert_eq!(setup.jobs(), 1);
}
