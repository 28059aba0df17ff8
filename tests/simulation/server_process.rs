//! One process of the server, from opening the store to its end by SIGTERM, `kill -9` or power loss.

use super::disk_faults::End;
use super::model::SimModel;
use super::process_faults::{ProcessFaults, StoreImage};
use super::schedules::SimSchedules;
use super::store::SimStore;
use super::tools::SimTools;
use super::world::World;
use nanoclaw::app::system::SystemClock;
use nanoclaw::engine::scheduler::{Scheduler, SchedulerPorts};
use nanoclaw::engine::worker::{Worker, WorkerTick};
use nanoclaw::engine::{ActiveLeases, Backoff, EngineLimits, EnginePorts, PreambleOptions};
use nanoclaw::ports::{Batches, CancelToken, Clock, Entropy, Model, NodeStore, Schedules, Store, Toolbox};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const WORKERS: usize = 3;
const LIMITS: EngineLimits = EngineLimits {
    preamble: PreambleOptions { enabled: false, time_zone: None, text: None },
    model_failures: 3,
    repeated_failures: 3,
    title_model: None,
    history_messages: 20,
    job_result_bytes: 1_024,
    approval_timeout_ms: 60_000,
    backoff: Backoff { first_s: 5, longest_s: 60 },
};
/// In one of this many worlds deltas are merged; in the others each write is waited for, so that a seed is
/// deterministic.
const LINGERING: u64 = 8;

/// A server process.
pub(crate) struct ServerProcess {
    pub(crate) faults: Arc<ProcessFaults>,
    /// The real store.
    pub(crate) store: Arc<dyn NodeStore>,
    /// The store with faults, as the engine sees it.
    pub(crate) sim_store: Arc<SimStore>,
    pub(crate) draining: CancelToken,
    pub(crate) leases: ActiveLeases,
    workers: Vec<(Worker, AtomicBool)>,
    scheduler: Mutex<Scheduler>,
}

struct NoJitter;

impl Entropy for NoJitter {
    fn random(&self) -> u128 {
        0
    }
}

/// Gives different ids in different processes.
struct SimEntropy(Arc<World>);

impl Entropy for SimEntropy {
    fn random(&self) -> u128 {
        u128::from(self.0.roll(u64::MAX))
    }
}

impl ServerProcess {
    /// The first process, on an empty store.
    pub(crate) fn first(world: &Arc<World>) -> Arc<Self> {
        Self::start(world, StoreImage::empty(world))
    }

    /// The next process, on the data of this one.
    pub(crate) fn next(&self, world: &Arc<World>) -> Arc<Self> {
        // A drain lets workers release the leases that came with their last ends.
        while self.draining.reason().is_some() && self.tick().is_some() {}
        // SIGTERM closes the store; the process may still die here.
        self.faults.strike_during(|| self.store.close());
        let has_died = self.faults.is_dead();
        world.tell(|| format!("next process; died: {has_died}"));
        let lost_claims = self.sim_store.lost_claims();
        world.oracle(
            |oracle| if has_died { oracle.crashed(lost_claims) } else { oracle.stopped(lost_claims) },
        );
        Self::start(world, self.faults.image())
    }

    /// Starts the server, and again if it dies during the start.
    fn start(world: &Arc<World>, mut image: StoreImage) -> Arc<Self> {
        loop {
            match Self::begin(world, image) {
                Ok(process) => {
                    world.oracle(|oracle| oracle.check_all(&*process.store));
                    return process;
                }
                Err(left) => image = left,
            }
        }
    }

    /// Opens the store; returns what is left if the process dies meanwhile.
    fn begin(world: &Arc<World>, image: StoreImage) -> Result<Arc<Self>, StoreImage> {
        let faults = Arc::new(ProcessFaults::new(world, image));
        if !world.is_calm() && world.chance(4) {
            faults.end_after(world.roll(40), End::PowerLoss);
        }
        let store = match faults.open(world) {
            Ok(store) => store,
            Err(error) => {
                if !faults.is_dead() {
                    world.oracle(|oracle| oracle.blame(format!("the store does not open: {error}")));
                    world.calm_down();
                    return Err(StoreImage::empty(world));
                }
                return Err(faults.image());
            }
        };
        let sim_store = Arc::new(SimStore::new(world, &store, &faults));
        let ports = EnginePorts {
            store: Arc::clone(&sim_store) as Arc<dyn Store>,
            model: Arc::new(SimModel::new(world, &faults)) as Arc<dyn Model>,
            tools: Arc::new(SimTools::new(world, &faults)) as Arc<dyn Toolbox>,
            clock: Arc::clone(&world.clock) as Arc<dyn Clock>,
            entropy: Arc::new(NoJitter),
            meter: Arc::new(nanoclaw::ports::NoopMeter),
        };
        let scheduler = Scheduler::new(SchedulerPorts {
            schedules: Arc::new(SimSchedules::new(world, &sim_store)) as Arc<dyn Schedules>,
            batches: Arc::<dyn NodeStore>::clone(&store) as Arc<dyn Batches>,
            jobs: Arc::clone(&sim_store) as Arc<dyn Store>,
            clock: Arc::clone(&world.clock) as Arc<dyn Clock>,
            entropy: Arc::new(SimEntropy(Arc::clone(world))),
        });
        let (draining, leases) = (CancelToken::new(Arc::new(SystemClock::new())), ActiveLeases::default());
        let worker = || Worker::new(ports.clone(), LIMITS, draining.clone(), leases.clone());
        let workers = (0..WORKERS).map(|_| (worker(), AtomicBool::new(false))).collect();
        Ok(Arc::new(Self {
            faults,
            store,
            sim_store,
            draining,
            leases,
            workers,
            scheduler: Mutex::new(scheduler),
        }))
    }

    /// Ends the process now.
    pub(crate) fn end(&self, end: End) {
        self.faults.end(end);
    }

    /// Runs a tick of the scheduler, unless one is running.
    pub(crate) fn keep_time(&self) {
        let Ok(mut scheduler) = self.scheduler.try_lock() else { return };
        if self.draining.reason().is_none() && !self.faults.is_dead() {
            drop(scheduler.tick());
        }
    }

    /// Runs a tick of a free worker, first of one that holds a lease; `None` when all are busy or the server
    /// stops.
    pub(crate) fn tick(&self) -> Option<WorkerTick> {
        if self.faults.is_dead() {
            return None;
        }
        let free = || self.workers.iter().filter(|(_, is_busy)| !is_busy.load(Ordering::SeqCst));
        let holder = free().find(|(worker, _)| worker.holds_lease());
        let any = || free().next().filter(|_| self.draining.reason().is_none());
        let (worker, is_busy) = holder.or_else(any)?;
        is_busy.store(true, Ordering::SeqCst);
        let tick = worker.tick(Duration::ZERO);
        is_busy.store(false, Ordering::SeqCst);
        Some(tick)
    }
}

impl World {
    /// Whether deltas are merged in this world.
    pub(crate) fn lingers(&self) -> bool {
        self.seed.is_multiple_of(LINGERING)
    }
}
