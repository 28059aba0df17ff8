//! Power losses at random moments, and the checks of their disk images.

use super::oracle::{Oracle, drain};
use crate::support::disk::{Disk, DiskHook, SeededRandom, Syncs};
use crate::support::store::{ManualClock, check_stored_bytes};
use nanoclaw::domain::limits::Limits;
use nanoclaw::store::options::StoreOptions;
use nanoclaw::store::{OpenError, RedbStore};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// One of this many writes or syncs is a power loss.
const ODDS: u64 = 40;
/// After this time every delayed job is due.
const LATE_MS: u64 = 1_000_000;

/// Takes images at random moments while the workload runs.
#[derive(Debug)]
pub(crate) struct PowerLoss {
    random: Mutex<SeededRandom>,
    oracle: Arc<Mutex<Oracle>>,
    /// 1 for losses during the workload, 2 for losses during recovery.
    round: u32,
    /// Losses happen only once the store is open.
    is_armed: AtomicBool,
    taken: AtomicU64,
    taken_again: AtomicU64,
    failures: Mutex<Vec<String>>,
}

impl PowerLoss {
    /// Checks images against the state of this oracle at the time of the loss.
    pub(crate) fn new(seed: u64, oracle: Arc<Mutex<Oracle>>, round: u32) -> Self {
        Self {
            random: Mutex::new(SeededRandom(seed)),
            oracle,
            round,
            is_armed: AtomicBool::new(round == 2),
            taken: AtomicU64::new(0),
            taken_again: AtomicU64::new(0),
            failures: Mutex::new(Vec::new()),
        }
    }

    /// Enables losses. The file is created under another name first, so that its creation needs no check.
    pub(crate) fn arm(&self) {
        self.is_armed.store(true, Ordering::SeqCst);
    }

    /// The number of checked images.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::SeqCst)
    }

    /// The number of checked images of a second loss.
    pub(crate) fn taken_again(&self) -> u64 {
        self.taken_again.load(Ordering::SeqCst)
    }

    /// The failed checks.
    pub(crate) fn failures(&self) -> Vec<String> {
        self.failures.lock().unwrap().clone()
    }

    /// Runs before a write or sync. The oracle is copied before the image is taken, so that it contains only
    /// data that was acknowledged or seen before the loss.
    fn may_strike(&self, disk: &Disk) {
        if !self.is_armed.load(Ordering::SeqCst) {
            return;
        }
        let mut random = self.random.lock().unwrap();
        if random.below(ODDS) != 0 || (self.round == 2 && self.taken() > 0) {
            return;
        }
        let number = self.taken.fetch_add(1, Ordering::SeqCst) + 1;
        let known = self.oracle.lock().unwrap().clone();
        let image = disk.image(&mut random);
        let seed = random.below(u64::MAX);
        drop(random);
        // redb may panic on an image of a disk with ineffective syncs; that counts as a failure.
        let checked = catch_unwind(AssertUnwindSafe(|| self.check(image, &known, seed)));
        if let Err(what) = checked.unwrap_or_else(|_| Err("panicked".to_owned())) {
            self.failures.lock().unwrap().push(format!("round {} image {number}: {what}", self.round));
        }
    }

    /// Checks an image; the error is the first failure.
    pub(crate) fn check(&self, image: Vec<u8>, known: &Oracle, seed: u64) -> Result<(), String> {
        let oracle = Arc::new(Mutex::new(known.clone()));
        let again = (self.round == 1).then(|| Arc::new(Self::new(seed, oracle, 2)));
        let clock = ManualClock::new();
        let disk =
            Disk::with(image, Syncs::Hold, again.clone().map(|power_loss| power_loss as Arc<dyn DiskHook>));
        let store = open(disk.clone(), &clock, 1).map_err(|e| e.to_string())?;
        known.check(&store)?;
        clock.advance(LATE_MS);
        drain(&store)?;
        known.check_keys(&store)?;
        store.close();
        check_stored_bytes(disk.content())?;
        let Some(again) = again else { return Ok(()) };
        self.taken_again.fetch_add(again.taken(), Ordering::SeqCst);
        again.failures().first().map_or(Ok(()), |failure| Err(failure.clone()))
    }
}

impl DiskHook for PowerLoss {
    fn before_write(&self, disk: &Disk) -> io::Result<()> {
        self.may_strike(disk);
        Ok(())
    }
}

/// Opens the store on a disk.
pub(crate) fn open(
    disk: Disk,
    clock: &Arc<ManualClock>,
    settle_ms: u64,
) -> Result<Arc<RedbStore>, OpenError> {
    let clock = Arc::clone(clock);
    let options = StoreOptions { settle_ms, linger_ms: 1, ..StoreOptions::default() };
    RedbStore::open_with_backend(move || disk.clone(), &options, &Limits::default(), clock)
}
