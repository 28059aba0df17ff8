//! Renews the lease of this node, gives its jobs up when that fails for too long, and takes over the jobs of
//! nodes that are gone.

use crate::ports::{ClusterNode, Measurement, StoreError, Ticket};
use crate::store::postgres::catalogue_watch::CatalogueWatch;
use crate::store::postgres::jobs::take_over::NodeLoss;
use crate::store::postgres::node::Heartbeat;
use crate::store::postgres::pool::Connections;
use crate::store::postgres::session::SqlSession;
use crate::store::postgres::shared::PostgresShared;
use crate::store::postgres::writer::act::Act;
use crate::store::postgres::writer::thread::WriterRequest;
use crate::store::postgres::writer::write::{WriteOptions, queued_write};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::time::Instant;

/// Time between two heartbeats. A third of it is enough to take a node's jobs over two seconds after its
/// lease.
const BEAT_EVERY: Duration = Duration::from_secs(1);

/// The thread of the heartbeats.
pub(crate) struct Heart {
    state: Arc<HeartState>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct HeartState {
    is_stopped: AtomicBool,
    lock: Mutex<()>,
    stopped: Condvar,
}

impl Heart {
    /// Starts the heartbeats.
    pub(crate) fn start(
        shared: Arc<PostgresShared>,
        connections: Connections,
        jobs: SyncSender<WriterRequest>,
    ) -> std::io::Result<Self> {
        let state = Arc::new(HeartState::default());
        let beating = Arc::clone(&state);
        let mut keeper = LeaseKeeper {
            shared,
            connections,
            jobs,
            is_loss_counted: false,
            take_overs: BTreeMap::new(),
            catalogue: CatalogueWatch::default(),
        };
        // Jobs of nodes that are gone already are queued before this node serves anybody.
        keeper.beat();
        keeper.continue_take_overs();
        keeper.finish_take_overs();
        let thread = std::thread::Builder::new().name("store-beat".to_owned()).spawn(move || {
            while !beating.wait(BEAT_EVERY.min(keeper.shared.database.lease / 4)) {
                keeper.beat();
                keeper.continue_take_overs();
                keeper.catalogue.look(&keeper.shared, &keeper.connections);
            }
        })?;
        Ok(Self { state, thread })
    }

    /// Ends the heartbeats. Blocks until the last one is over.
    pub(crate) fn stop(self) {
        self.state.is_stopped.store(true, Ordering::SeqCst);
        self.state.stopped.notify_all();
        drop(self.thread.join());
    }
}

impl HeartState {
    /// Waits; returns whether the heart is stopped.
    fn wait(&self, timeout: Duration) -> bool {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let is_beating = |(): &mut ()| !self.is_stopped.load(Ordering::SeqCst);
        drop(self.stopped.wait_timeout_while(guard, timeout, is_beating));
        self.is_stopped.load(Ordering::SeqCst)
    }
}

struct LeaseKeeper {
    shared: Arc<PostgresShared>,
    /// Its own: reads and writes may hold all others for longer than a lease.
    connections: Connections,
    jobs: SyncSender<WriterRequest>,
    /// Lost nodes whose jobs are to be queued again. Nothing here waits for these writes: they may take
    /// longer than a lease.
    take_overs: BTreeMap<i64, TakeOver>,
    /// Whether the current loss of the lease is counted.
    is_loss_counted: bool,
    catalogue: CatalogueWatch,
}

/// The queueing of a lost node's jobs.
struct TakeOver {
    loss: NodeLoss,
    /// The write; `None`: it is not queued yet.
    ticket: Option<Ticket<usize>>,
}

impl LeaseKeeper {
    fn beat(&mut self) {
        let (shared, began_us) = (Arc::clone(&self.shared), self.shared.clock.monotonic_us());
        if shared.node.is_lost() {
            self.count_loss();
            self.register_again();
            return;
        }
        let lease = shared.database.lease;
        let beat = self.ask(async |session: &SqlSession<'_>| {
            if let Err(error) = shared.providers.tell(session).await {
                tracing::warn!(%error, "cannot tell the other nodes of a provider's pause yet");
            }
            shared.node.beat(session, lease).await
        });
        match beat {
            Ok(beat) => {
                shared.providers.learn(&beat);
                shared.set_database_time(beat.database_ms);
                let took_us = shared.clock.monotonic_us().saturating_sub(began_us);
                shared.measure(Measurement::DatabaseAnswered { operation: "heartbeat", took_us });
                shared.cancel_leases(&beat.cancelled);
                self.settle(beat, began_us / 1_000);
            }
            // The others take the jobs over when the lease ends; by then nothing of them may run here.
            Err(error) if self.is_renewal_late() => {
                self.lose(&error.to_string());
            }
            Err(error) => tracing::warn!(%error, "cannot renew the lease of this node"),
        }
    }

    /// Asks the database, for a third of the lease at most: a network that delivers nothing must not stop
    /// this thread beyond the lease. Learns whether the database hangs; one that is away refuses at once.
    fn ask<T>(
        &self,
        reader: impl AsyncFn(&SqlSession<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let (limit, began) = (self.shared.database.lease / 3, Instant::now());
        let answer = self.connections.read_within(limit, reader);
        let is_away = matches!(answer, Err(StoreError::Unreachable));
        self.shared.silence.set(is_away && began.elapsed() >= limit / 2);
        answer
    }

    /// Acts on what a heartbeat has found that began at `began_ms`.
    fn settle(&mut self, beat: Heartbeat, began_ms: u64) {
        let (own, now_ms) = (self.shared.node.id(), self.shared.clock.monotonic_ms());
        let mut state = self.shared.last_beat();
        state.note_answer(now_ms, self.shared.database.lease);
        let loss_of = |node: &ClusterNode| {
            let beat_ms = node.beat_age_ms.map(|age_ms| now_ms.saturating_sub(age_ms));
            if beat_ms.is_some_and(|ms| state.is_outage(ms)) { NodeLoss::Outage } else { NodeLoss::Crash }
        };
        let gone = beat.nodes.iter().filter(|node| !node.is_live() && node.id != own);
        let ended: Vec<(i64, NodeLoss)> = gone.map(|node| (node.id, loss_of(node))).collect();
        state.nodes = beat.nodes;
        if beat.is_alive {
            state.renewed_ms = began_ms;
        }
        drop(state);
        if let Err(error) = beat.layout.check() {
            self.lose(&error.to_string());
        } else if !beat.is_alive {
            self.lose("its lease had ended");
        }
        for (node, loss) in ended {
            self.take_overs.entry(node).or_insert(TakeOver { loss, ticket: None });
        }
    }

    /// Whether the last renewal is so long ago that others may take the jobs over soon.
    fn is_renewal_late(&self) -> bool {
        let silent_ms = self.shared.clock.monotonic_ms().saturating_sub(self.shared.last_beat().renewed_ms);
        Duration::from_millis(silent_ms) >= self.shared.database.lease * 2 / 3
    }

    fn lose(&mut self, reason: &str) {
        tracing::error!(reason, node = self.shared.node.id(), "this node has lost its jobs");
        self.shared.last_beat().lost = Some(reason.to_owned());
        self.shared.node.lose();
        self.shared.lose_leases();
        self.count_loss();
    }

    fn count_loss(&mut self) {
        if !std::mem::replace(&mut self.is_loss_counted, true) {
            self.shared.measure(Measurement::LeaseLost);
        }
    }

    fn register_again(&mut self) {
        let (shared, old) = (Arc::clone(&self.shared), self.shared.node.id());
        let register = async |session: &SqlSession<'_>| shared.node.register(session, &shared.database).await;
        match self.ask(register) {
            Ok(database_ms) => {
                shared.set_database_time(database_ms);
                let now_ms = shared.clock.monotonic_ms();
                let mut last = shared.last_beat();
                last.note_answer(now_ms, shared.database.lease);
                (last.renewed_ms, last.lost) = (now_ms, None);
                drop(last);
                self.is_loss_counted = false;
                tracing::info!(node = shared.node.id(), "this node has a lease again");
                self.take_overs.insert(old, TakeOver { loss: NodeLoss::Own, ticket: None });
                shared.hint_ready();
                shared.wake_job_writer();
            }
            Err(error) => {
                tracing::warn!(%error, "this node has no lease yet");
                shared.last_beat().lost = Some(error.to_string());
            }
        }
    }

    /// Queues the writes that take the jobs of lost nodes over, after the writes that wait already, and looks
    /// what became of earlier ones.
    fn continue_take_overs(&mut self) {
        let jobs = &self.jobs;
        self.take_overs.retain(|node, take_over| match &mut take_over.ticket {
            None => {
                take_over.ticket = queue_take_over(jobs, *node, take_over.loss);
                true
            }
            Some(ticket) => match ticket.poll() {
                None => true,
                Some(outcome) => {
                    take_over.ticket = None;
                    // The next heartbeat finds another node again, but not this one.
                    !log_take_over(*node, &outcome) && take_over.loss == NodeLoss::Own
                }
            },
        });
    }

    /// Waits for the writes that take the jobs of lost nodes over.
    fn finish_take_overs(&mut self) {
        for (node, take_over) in std::mem::take(&mut self.take_overs) {
            if let Some(ticket) = take_over.ticket {
                log_take_over(node, &ticket.wait());
            }
        }
    }
}

/// Queues the jobs of a lost node again; `None`: too many writes wait already.
fn queue_take_over(jobs: &SyncSender<WriterRequest>, node: i64, loss: NodeLoss) -> Option<Ticket<usize>> {
    let (write, ticket) =
        queued_write(WriteOptions::default(), async move |act: &mut Act<'_>| act.take_over(node, loss).await);
    match jobs.try_send(WriterRequest::Write(write)) {
        Ok(()) => Some(ticket),
        Err(TrySendError::Full(_)) => None,
        Err(TrySendError::Disconnected(_)) => Some(Ticket::resolved(Err(StoreError::Closed))),
    }
}

/// Returns whether nothing is left to do.
fn log_take_over(node: i64, outcome: &Result<usize, StoreError>) -> bool {
    match outcome {
        Ok(0) | Err(StoreError::Closed) => true,
        Ok(jobs) => {
            tracing::info!(node, jobs, "took over the jobs of a lost node");
            true
        }
        Err(error) => {
            tracing::warn!(%error, node, "cannot take over the jobs of a lost node yet");
            false
        }
    }
}
