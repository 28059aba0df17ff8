//! The workload during power losses: submissions, claims, deltas, ends, cancels, retries, batches and
//! webhooks in a seeded order.

use super::oracle::Oracle;
use super::power_loss::{PowerLoss, open};
use crate::support::disk::{Disk, DiskHook, SeededRandom, Syncs};
use crate::support::store::{ANN, BOB, ManualClock, cancelled, cost, delta, done, id, job, turn};
use nanoclaw::domain::delivery_turns::DeliveryTurns;
use nanoclaw::domain::event::{EngineMark, Event, FailureCode, Record};
use nanoclaw::domain::id::{BatchId, JobId};
use nanoclaw::domain::idempotency::IdempotencyKey;
use nanoclaw::domain::job::JobOutcome;
use nanoclaw::domain::usage::Usage;
use nanoclaw::domain::webhook::{AfterAttempt, DeliveryAttempt, WebhookUrl};
use nanoclaw::ports::{
    Batches, Clock, Idempotent, JobChangeError, Lease, NewBatch, NewLine, Outbox, Store, Urgency,
};
use nanoclaw::store::RedbStore;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const STEPS: u64 = 45;

struct Workload {
    store: Arc<RedbStore>,
    clock: Arc<ManualClock>,
    oracle: Arc<Mutex<Oracle>>,
    random: SeededRandom,
    jobs: Vec<JobId>,
    batches: u64,
    leases: Vec<(Lease, u64)>,
}

/// Runs the workload of a seed with its power losses.
pub(crate) fn run(seed: u64, syncs: Syncs) -> PowerLoss {
    let oracle = Arc::new(Mutex::new(Oracle::default()));
    let power_loss = Arc::new(PowerLoss::new(seed, Arc::clone(&oracle), 1));
    let disk = Disk::with(Vec::new(), syncs, Some(Arc::clone(&power_loss) as Arc<dyn DiskHook>));
    // Some seeds settle after each write, some never.
    let clock = ManualClock::new();
    let store = open(disk, &clock, if seed.is_multiple_of(2) { 0 } else { 60_000 }).unwrap();
    power_loss.arm();
    let mut workload = Workload {
        store: Arc::clone(&store),
        clock,
        oracle: Arc::clone(&oracle),
        random: SeededRandom(seed),
        jobs: Vec::new(),
        batches: 0,
        leases: Vec::new(),
    };
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // A client reads all the time: everything readable must survive (P2).
        let reader = scope.spawn(|| {
            while !ended.load(Ordering::SeqCst) {
                let newest = id(1);
                if store.log(newest).is_ok_and(|log| !log.is_empty()) {
                    oracle.lock().unwrap().note(&store, newest);
                }
                std::thread::yield_now();
            }
        });
        for _ in 0..STEPS {
            workload.step();
        }
        ended.store(true, Ordering::SeqCst);
        reader.join().unwrap();
    });
    store.close();
    drop((store, workload));
    let power_loss = Arc::into_inner(power_loss);
    power_loss.expect("no other reference to the disk")
}

impl Workload {
    fn step(&mut self) {
        self.clock.advance(1);
        match self.random.below(19) {
            0 | 1 => self.submit(),
            2 => self.submit_once(),
            3..=5 => self.claim(),
            6..=8 => self.append(),
            9..=11 => self.finish(),
            12 => self.cancel(),
            13 => self.release(),
            14 => self.postpone(),
            15 => self.retry(),
            16 => self.batch(),
            17 => self.defer(),
            _ => self.deliver(),
        }
    }

    fn note(&self, job: JobId) {
        self.oracle.lock().unwrap().note(&self.store, job);
    }

    fn submit(&mut self) {
        let count = 1 + self.random.below(3);
        let mut new = Vec::new();
        for _ in 0..count {
            let number = self.jobs.len() as u128 + 1;
            let user = if self.random.below(2) == 0 { ANN } else { BOB };
            new.push(match self.random.below(3) {
                0 => job(number, user),
                1 => turn(number, user, "chat"),
                _ => turn(number, user, "other"),
            });
            if let Some(new) = new.last_mut().filter(|_| self.random.below(4) == 0) {
                new.spec.run_at_ms = Some(self.clock.now_ms() + self.random.below(30));
            }
            let hook = self.hook();
            new.last_mut().unwrap().spec.webhook_url = hook;
            self.jobs.push(id(number));
        }
        // Two concurrent submissions share a commit or follow each other.
        let rest = new.split_off(new.len() / 2);
        let tickets = [new, rest].map(|part| self.store.submit(part));
        for ticket in tickets {
            for stored in ticket.wait().unwrap() {
                self.note(stored.id);
            }
        }
    }

    fn claim(&mut self) {
        let max = 1 + self.random.below(3);
        let leases = self.store.claim(usize::try_from(max).unwrap()).wait().unwrap();
        for lease in leases {
            self.note(lease.job.id);
            self.leases.push((lease, 0));
        }
    }

    fn append(&mut self) {
        let (at, urgent, pieces) =
            (self.random.below(100), self.random.below(2) == 0, 1 + self.random.below(4));
        let count = self.leases.len().max(1);
        let Some((lease, offset)) = self.leases.get_mut(usize::try_from(at).unwrap() % count) else { return };
        let mut tickets = Vec::new();
        for _ in 0..pieces {
            let text = "text ".repeat(1 + usize::try_from(self.random.below(300)).unwrap());
            let mut records = vec![delta(1, *offset, &text)];
            *offset += text.len() as u64;
            if self.random.below(3) == 0 {
                records.push(Record::Mark(EngineMark::ToolStarted { id_ref: format!("call_{offset}") }));
            }
            if self.random.below(3) == 0 {
                let model = ["demo", "other"][usize::from(self.random.below(2) == 0)];
                records.push(cost(Some(model), Usage::new(self.random.below(100), 1)));
            }
            let urgency = if urgent { Urgency::Now } else { Urgency::Soon };
            tickets.push(self.store.append(lease.fence(), records, urgency));
        }
        let job = lease.job.id;
        for ticket in tickets {
            ticket.wait().unwrap();
        }
        self.note(job);
    }

    fn take(&mut self) -> Option<Lease> {
        let at = usize::try_from(self.random.below(100)).unwrap();
        if self.leases.is_empty() { None } else { Some(self.leases.swap_remove(at % self.leases.len()).0) }
    }

    fn finish(&mut self) {
        let Some(lease) = self.take() else { return };
        let text = "answer ".repeat(1 + usize::try_from(self.random.below(200)).unwrap());
        let ending = match self.random.below(3) {
            _ if lease.cancel.reason().is_some() => cancelled(),
            0 => {
                let event = Event::Error {
                    content: "no".to_owned(),
                    code: FailureCode::ProviderError,
                    retry_after_ms: None,
                };
                JobOutcome { event, ..cancelled() }
            }
            _ => done(lease.job.id, &text),
        };
        let last = vec![delta(2, 0, "last"), cost(None, Usage::new(1, self.random.below(100)))];
        let ended = self.store.finish(lease.fence(), last, ending);
        ended.wait().unwrap();
        self.note(lease.job.id);
    }

    fn cancel(&mut self) {
        let Some(job) = self.random.pick(&self.jobs).copied() else { return };
        for user in [ANN, BOB] {
            self.store.cancel(user, job).wait().unwrap();
        }
        self.note(job);
    }

    fn release(&mut self) {
        let Some(lease) = self.take() else { return };
        self.store.release(lease.fence()).wait().unwrap();
        self.note(lease.job.id);
    }

    fn hook(&mut self) -> Option<WebhookUrl> {
        let url = format!("https://host-{}.example/", self.random.below(2));
        (self.random.below(2) == 0).then(|| WebhookUrl::try_from(url).unwrap())
    }

    /// Two clients submit with the same key, one of a few.
    fn submit_once(&mut self) {
        let key =
            IdempotencyKey { key: [u8::try_from(self.random.below(4)).unwrap(); 32], fingerprint: [0; 32] };
        let tickets = [1, 2].map(|more| {
            let number = self.jobs.len() as u128 + more;
            self.store.submit_once(job(number, ANN), key)
        });
        self.jobs.extend([1, 2].map(|more| id(self.jobs.len() as u128 + more)));
        for ticket in tickets {
            let (Idempotent::New(job) | Idempotent::Replayed(job)) = ticket.wait().unwrap();
            self.oracle.lock().unwrap().key_returned(key, job.id);
            self.note(job.id);
        }
    }

    fn postpone(&mut self) {
        let (Some(lease), delay_ms) = (self.take(), self.random.below(30)) else { return };
        self.store.postpone(lease.fence(), "no answer".to_owned(), delay_ms).wait().unwrap();
        self.note(lease.job.id);
    }

    fn defer(&mut self) {
        let (Some(lease), delay_ms) = (self.take(), self.random.below(30)) else { return };
        self.store.defer(lease.fence(), "waits for its turn".to_owned(), delay_ms).wait().unwrap();
        self.note(lease.job.id);
    }

    /// Retries a random job; the store refuses unless it has failed.
    fn retry(&mut self) {
        for user in [ANN, BOB] {
            let Some(job) = self.random.pick(&self.jobs).copied() else { return };
            self.oracle.lock().unwrap().reopens(job);
            match self.store.retry(user, job).wait() {
                Ok(_) | Err(JobChangeError::WrongState { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            self.oracle.lock().unwrap().reopened(&self.store, job);
        }
    }

    /// Fills a batch in two pieces; some batches stay incomplete, some are cancelled.
    fn batch(&mut self) {
        self.batches += 1;
        let (batch, count) =
            (BatchId::from_bits(u128::from(self.batches)), 2 + u32::try_from(self.random.below(5)).unwrap());
        let hook = self.hook();
        let line = |number: u32| {
            let mut spec = job(u128::from(number), ANN).spec;
            spec.webhook_url.clone_from(&hook);
            NewLine { custom_id: number.to_string(), spec }
        };
        let filled = [(0, 1), (1, count)]
            .map(|(first, until)| self.store.fill((ANN, batch), first, (first..until).map(line).collect()));
        for ticket in filled {
            ticket.wait().unwrap();
        }
        if self.random.below(4) == 0 {
            return;
        }
        let new = NewBatch {
            id: batch,
            user: ANN,
            created_at_ms: self.clock.now_ms(),
            lines: count,
            concurrency: 1 + u32::try_from(self.random.below(3)).unwrap(),
            webhook_url: hook,
            expires_at_ms: None,
            source: None,
        };
        drop(self.store.accept(new, None).wait().unwrap());
        self.oracle.lock().unwrap().accepted(batch, count);
        if self.random.below(3) == 0 {
            let other = BatchId::from_bits(u128::from(1 + self.random.below(self.batches)));
            self.store.cancel_batch(ANN, other).wait().unwrap();
        }
    }

    fn deliver(&mut self) {
        let now_ms = self.clock.now_ms();
        for delivery in self.store.due(now_ms, 4, &DeliveryTurns::default()).unwrap() {
            let next = match self.random.below(3) {
                0 => AfterAttempt::Retry { at_ms: now_ms + 5 },
                1 => AfterAttempt::Dead,
                _ => AfterAttempt::Delivered,
            };
            self.store
                .settle(delivery.id, DeliveryAttempt { status: None, error: None, next })
                .wait()
                .unwrap();
        }
    }
}
