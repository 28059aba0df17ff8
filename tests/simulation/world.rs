//! The world of one seed: the real store on a disk that can lose power, the real engine, and simulated
//! models, tools and clients. One thread runs everything: between any two writes of a job and inside any
//! call, the world may run another worker, cancel, submit, set the clock, break the disk, or end the
//! process.

use super::clock::SimClock;
use super::disk_faults::{End, IoFault};

use super::oracle::Oracle;
use super::process_faults::StoreKind;
use super::server_process::ServerProcess;
use crate::support::disk::SeededRandom;
use crate::support::store::{ANN, BOB, id, job, turn};
use nanoclaw::domain::id::{JobId, UserId};
use nanoclaw::domain::job::Priority;
use nanoclaw::domain::job_conditions::OnFailure;
use nanoclaw::engine::worker::WorkerTick;
use nanoclaw::ports::{CancelReason, Clock, NewJob, Store};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Steps of a world before faults stop.
const STEPS: u64 = 11;
/// Maximum nesting of events.
const MAX_DEPTH: usize = 3;
/// Ticks within which everything must end after faults stop.
const PATIENCE: u32 = 600;
/// Retries and repeated keys after faults stop.
const LAST_ACTS: u64 = 2;
const HOUR_MS: u64 = 3_600_000;
const YEAR_MS: i64 = 365 * 24 * 3_600_000;

/// A defect injected to check that the simulation detects it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    /// Syncs have no effect.
    LyingDisk,
    /// The database confirms commits that it rolls back.
    LyingDatabase,
    /// Appends are acknowledged before they are committed.
    EarlyAck,
    /// Every tool claims to be idempotent.
    AllIdempotent,
    /// A job's end is visible in a separate transaction before its row.
    SplitEnd,
    /// Idempotency keys are forgotten at each start.
    ForgetsKeys,
    /// Failed jobs are retried without a delay.
    Hasty,
    /// Webhooks of jobs are lost.
    LosesMail,
    /// A schedule stays due after it has fired.
    FiresTwice,
    /// Guarded calls run without approval.
    Unasked,
    /// The list of ended lines lacks one line.
    LosesLine,
}

/// One world.
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) kind: StoreKind,
    pub(crate) flaw: Flaw,
    pub(crate) clock: Arc<SimClock>,
    random: Mutex<SeededRandom>,
    oracle: Mutex<Oracle>,
    process: Mutex<Option<Arc<ServerProcess>>>,
    depth: AtomicUsize,
    pub(crate) next_job: AtomicU64,
    pub(crate) next_batch: AtomicU64,
    /// No further faults and client actions.
    is_calm: AtomicBool,
    /// The write before or after which the process ends, counted over all processes; for deterministic
    /// worlds.
    end_at: AtomicU64,
    writes: AtomicU64,
    /// `TEST_TRACE` is set.
    is_told: bool,
}

impl World {
    /// A random world.
    pub(crate) fn new(seed: u64, flaw: Flaw, kind: StoreKind) -> Arc<Self> {
        Self::make((seed, kind), flaw, u64::MAX)
    }

    /// A deterministic world whose process ends around one write: for 2n before write n reaches the store,
    /// for 2n + 1 after write n is durable and before it is acknowledged.
    pub(crate) fn cut(kind: StoreKind, flaw: Flaw, end_at: u64) -> Arc<Self> {
        let world = Self::make((1, kind), flaw, end_at);
        world.calm_down();
        world
    }

    fn make((seed, kind): (u64, StoreKind), flaw: Flaw, end_at: u64) -> Arc<Self> {
        let world = Arc::new(Self {
            seed,
            kind,
            flaw,
            clock: Arc::new(SimClock::new()),
            random: Mutex::new(SeededRandom(seed)),
            oracle: Mutex::default(),
            process: Mutex::new(None),
            depth: AtomicUsize::new(0),
            next_job: AtomicU64::new(1),
            next_batch: AtomicU64::new(1),
            is_calm: AtomicBool::new(false),
            end_at: AtomicU64::new(end_at),
            writes: AtomicU64::new(0),
            is_told: std::env::vars().any(|(key, _)| key == "TEST_TRACE"),
        });
        world.oracle(|oracle| oracle.client_records.loses_a_line = flaw == Flaw::LosesLine);
        let first = ServerProcess::first(&world);
        *world.process.lock().unwrap() = Some(first);
        world
    }

    /// A number below `bound`.
    pub(crate) fn roll(&self, bound: u64) -> u64 {
        self.random.lock().unwrap().below(bound)
    }

    /// One time in `odds`.
    pub(crate) fn chance(&self, odds: u64) -> bool {
        self.roll(odds) == 0
    }

    /// Stops faults and client actions.
    pub(crate) fn calm_down(&self) {
        self.is_calm.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::SeqCst)
    }

    /// Accesses the oracle; must not be held across other calls.
    pub(crate) fn oracle<T>(&self, work: impl FnOnce(&mut Oracle) -> T) -> T {
        work(&mut self.oracle.lock().unwrap())
    }

    pub(crate) fn process(&self) -> Arc<ServerProcess> {
        Arc::clone(self.process.lock().unwrap().as_ref().unwrap())
    }

    /// Whether there is a violation.
    pub(crate) fn is_broken(&self) -> bool {
        self.oracle(|oracle| !oracle.violations.is_empty())
    }

    /// Runs the world; returns the violations.
    pub(crate) fn run(self: &Arc<Self>) -> Vec<String> {
        for _ in 0..STEPS {
            self.step();
            self.mend();
            if self.is_broken() {
                return self.leave();
            }
        }
        self.settle();
        self.leave()
    }

    /// Stops faults and runs until everything has ended.
    pub(crate) fn settle(self: &Arc<Self>) {
        self.calm_down();
        let mut quiet = 0;
        for _ in 0..PATIENCE {
            self.process().faults.calm();
            // Those that a failure ends, and those that it releases.
            while self.process().sim_store.end_due().wait() == Ok(true) {}
            let tick = self.tick();
            self.mend();
            if self.is_broken() || quiet > 2 {
                break;
            }
            if tick == Some(WorkerTick::Idle) && self.decide_one() {
                continue;
            }
            if tick == Some(WorkerTick::Idle) {
                quiet += 1;
                if quiet == 1 {
                    self.last_acts();
                }
                // By then every delayed job is due.
                self.clock.jump(100 * YEAR_MS);
            }
        }
        let process = self.process();
        self.oracle(|oracle| {
            oracle.check_all(&*process.store);
            oracle.check_ended(&*process.store);
        });
    }

    /// Whether the world is random; otherwise it tests one job and one kill.
    pub(crate) fn is_free(&self) -> bool {
        self.end_at.load(Ordering::SeqCst) == u64::MAX
    }

    /// Performs retries and repeated submissions after the last fault, in random worlds.
    fn last_acts(self: &Arc<Self>) {
        if !self.is_free() {
            return;
        }
        for _ in 0..LAST_ACTS {
            self.retry();
            if self.chance(3) {
                self.submit_once();
            }
        }
        self.process().keep_time();
    }

    /// Breaks the reference cycle of the world's parts; returns the violations.
    pub(crate) fn leave(&self) -> Vec<String> {
        let process = self.process.lock().unwrap().take().unwrap();
        process.store.close();
        self.oracle(|oracle| std::mem::take(&mut oracle.violations))
    }

    fn step(self: &Arc<Self>) {
        self.clock.advance(1 + self.roll(50));
        // Every second step: a database has few statements to a step, and many kinds of faults.
        if self.kind == StoreKind::Database && self.chance(2) {
            self.schedule_fault();
        }
        match self.roll(13) {
            0..=2 => self.submit(),
            3..=7 => drop(self.tick()),
            8 => self.cancel(),
            9..=11 => self.act(),
            _ => self.happen(),
        }
    }

    /// Restarts the process if it has ended or is stopping.
    pub(crate) fn mend(self: &Arc<Self>) {
        let process = self.process();
        if process.faults.is_dead() || process.draining.reason().is_some() {
            let next = process.next(self);
            *self.process.lock().unwrap() = Some(next);
        }
        let process = self.process();
        self.oracle(|oracle| {
            for job in std::mem::take(&mut oracle.touched) {
                oracle.check(&*process.store, job);
            }
            oracle.check_touched_batches(&*process.store);
        });
    }

    /// A point between two operations of the engine where events may happen.
    pub(crate) fn point(self: &Arc<Self>) {
        if !self.is_calm() && self.chance(9) {
            self.happen();
        }
    }

    /// Prints an event if `TEST_TRACE` is set.
    pub(crate) fn tell(&self, what: impl FnOnce() -> String) {
        if self.is_told {
            println!("{:>3$} seed {} {}", "", self.seed, what(), self.depth.load(Ordering::SeqCst) * 4);
        }
    }

    fn happen(self: &Arc<Self>) {
        if self.depth.load(Ordering::SeqCst) >= MAX_DEPTH || self.process().faults.is_dead() {
            return;
        }
        self.depth.fetch_add(1, Ordering::SeqCst);
        match self.roll(74) {
            0..=19 => {
                self.oracle(|oracle| oracle.counts.nested += 1);
                drop(self.tick());
            }
            20..=25 => self.cancel(),
            26..=31 => self.submit(),
            32..=45 => self.read(),
            46..=48 => self.clock.advance(1 + self.roll(20_000)),
            49 => self.clock.jump(3_600_000),
            50 => self.clock.jump(-3_600_000),
            51 => self.clock.jump(10 * YEAR_MS),
            52 | 53 => self.schedule_fault(),
            54 | 55 => self.process().end(if self.chance(2) { End::Kill } else { End::PowerLoss }),
            56..=58 => {
                let end = if self.chance(3) { End::Kill } else { End::PowerLoss };
                self.process().faults.end_after(self.roll(60), end);
            }
            59 | 60 => self.drain(),
            61..=71 => self.act(),
            _ => {}
        }
        self.depth.fetch_sub(1, Ordering::SeqCst);
    }

    fn schedule_fault(&self) {
        let (after, count, is_full) = (self.roll(12), 1 + self.roll(8), self.chance(2));
        if self.process().faults.schedule(IoFault { after, count, is_full }) {
            self.oracle(|oracle| oracle.counts.troubles += 1);
            self.tell(|| format!("faults after {after}: {count}, full: {is_full}"));
        }
    }

    /// SIGTERM; the drain time may be over at once.
    fn drain(&self) {
        let process = self.process();
        self.tell(|| "SIGTERM".to_owned());
        process.draining.cancel(CancelReason::Shutdown);
        if self.chance(2) {
            process.leases.cancel_all(CancelReason::Shutdown);
        }
    }

    /// Runs a tick of a free worker, if there is one.
    pub(crate) fn tick(self: &Arc<Self>) -> Option<WorkerTick> {
        let process = self.process();
        let tick = process.tick()?;
        if tick == WorkerTick::Idle && !process.faults.is_dead() {
            self.oracle(Oracle::found_nothing);
        }
        Some(tick)
    }

    fn submit(self: &Arc<Self>) {
        let mut new = Vec::new();
        let user = [ANN, BOB][usize::try_from(self.roll(2)).unwrap()];
        for _ in 0..=self.roll(3) {
            new.push(self.draft(user));
        }
        self.offer(new);
    }

    /// A random job of a client.
    pub(crate) fn draft(&self, user: UserId) -> NewJob {
        let number = u128::from(self.next_job.fetch_add(1, Ordering::SeqCst));
        let mut new = match self.roll(3) {
            0 => turn(number, user, "chat"),
            1 => turn(number, user, "other"),
            _ => job(number, user),
        };
        new.spec.max_steps = 2;
        new.spec.max_attempts = 1 + u32::try_from(self.roll(3)).unwrap();
        new.spec.webhook_url = self.hook();
        if self.chance(4) {
            new.spec.priority = Priority::new(3 + self.roll(3)).unwrap();
        }
        if self.chance(6) {
            new.spec.run_at_ms = Some(self.clock.now_ms() + self.roll(2 * HOUR_MS));
        }
        if self.chance(5) {
            self.follow(&mut new);
        }
        new
    }

    /// Makes the job come after another one of its user, if there is one.
    fn follow(&self, new: &mut NewJob) {
        let before = self.some_job().filter(|(user, _)| *user == new.user);
        new.spec.conditions.after = before.map(|(_, job)| job).into_iter().collect();
        if self.chance(2) {
            new.spec.conditions.on_failure = OnFailure::Run;
        }
    }

    /// Submits these jobs, all or none.
    pub(crate) fn offer(&self, new: Vec<NewJob>) {
        let process = self.process();
        let ids: Vec<_> = new.iter().map(|job| job.id).collect();
        if process.sim_store.submit(new).wait().is_ok() {
            self.oracle(|oracle| ids.into_iter().for_each(|job| oracle.accept(job)));
        }
    }

    fn some_job(&self) -> Option<(UserId, JobId)> {
        let count = self.next_job.load(Ordering::SeqCst);
        let job = id(u128::from(1 + self.roll(count)));
        self.oracle(|oracle| oracle.jobs.get(&job).map(|known| (known.user, job)))
    }

    fn cancel(self: &Arc<Self>) {
        let Some((user, job)) = self.some_job() else { return };
        let process = self.process();
        let stranger = if user == ANN { BOB } else { ANN };
        if let Ok(Some(row)) = process.sim_store.cancel(stranger, job).wait() {
            self.oracle(|oracle| oracle.blame(format!("another user has cancelled {row:?}")));
        }
        match process.sim_store.cancel(user, job).wait() {
            Ok(Some(row)) if row.status.is_terminal() => self.oracle(|oracle| oracle.left(job, true)),
            Err(_) => self.oracle(|oracle| oracle.doubt(job)),
            _ => {}
        }
    }

    fn read(self: &Arc<Self>) {
        let Some((_, job)) = self.some_job() else { return };
        let (process, max) = (self.process(), 1 + usize::try_from(self.roll(8)).unwrap());
        self.oracle(|oracle| oracle.read(process.sim_store.as_ref(), job, max));
    }

    /// Called before and after every write; the process may end here.
    pub(crate) fn at_write(&self) {
        if !self.is_calm() && self.chance(400) {
            self.process().end(if self.chance(2) { End::Kill } else { End::PowerLoss });
        }
        let number = self.writes.fetch_add(1, Ordering::SeqCst);
        if number == self.end_at.load(Ordering::SeqCst) {
            self.process().end(End::Kill);
        }
    }
}
