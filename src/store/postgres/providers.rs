//! The port [`ProviderCluster`]: heartbeats carry the pauses of providers and the number of nodes, so that
//! calls of models ask nobody.

use crate::ports::{Clock, NodeShare, ProviderCluster, StoreError};
use crate::store::postgres::node::{DATABASE_MS, Heartbeat, PAUSE};
use crate::store::postgres::session::{SqlSession, sql_number};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What this node knows of the others.
pub(crate) struct KnownProviders {
    clock: Arc<dyn Clock>,
    state: Mutex<ProviderState>,
}

struct ProviderState {
    share: NodeShare,
    /// The ends of pauses by account, as in `Clock::monotonic_ms`.
    pauses: BTreeMap<String, u64>,
    /// Those that the others do not know yet.
    untold: BTreeMap<String, u64>,
}

impl KnownProviders {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let state = ProviderState { share: NodeShare::ALL, pauses: BTreeMap::new(), untold: BTreeMap::new() };
        Self { clock, state: Mutex::new(state) }
    }

    /// Tells the other nodes of new pauses. Nearly always there are none.
    pub(crate) async fn tell(&self, session: &SqlSession<'_>) -> Result<(), StoreError> {
        let untold = std::mem::take(&mut self.lock().untold);
        if untold.is_empty() {
            return Ok(());
        }
        let now_ms = self.clock.monotonic_ms();
        let (accounts, rests): (Vec<&String>, Vec<i64>) = untold
            .iter()
            .map(|(account, until_ms)| (account, sql_number(until_ms.saturating_sub(now_ms))))
            .unzip();
        let sql = format!(
            "INSERT INTO windows AS w (name, owner, until_ms, count) \
             SELECT $1, account, {DATABASE_MS} + rest, 1 FROM unnest($2::text[], $3::bigint[]) AS p(account, rest) \
             ON CONFLICT (name, owner) DO UPDATE SET until_ms = greatest(w.until_ms, excluded.until_ms)"
        );
        let told = session.execute(&sql, &[&PAUSE, &accounts, &rests]).await.map(drop);
        if told.is_err() {
            self.lock().untold.extend(untold);
        }
        told
    }

    /// Learns what a heartbeat has found.
    pub(crate) fn learn(&self, beat: &Heartbeat) {
        let now_ms = self.clock.monotonic_ms();
        let mut state = self.lock();
        state.share = beat.share;
        let pauses = beat.pauses.iter();
        state.pauses =
            pauses.map(|(account, rest)| (account.clone(), now_ms.saturating_add(*rest))).collect();
    }

    fn lock(&self) -> MutexGuard<'_, ProviderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for KnownProviders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownProviders").field("share", &self.lock().share).finish_non_exhaustive()
    }
}

impl ProviderCluster for KnownProviders {
    fn share(&self) -> NodeShare {
        self.lock().share
    }

    fn pause_left_ms(&self, account: &str) -> u64 {
        let until_ms = self.lock().pauses.get(account).copied();
        until_ms.map_or(0, |until_ms| until_ms.saturating_sub(self.clock.monotonic_ms()))
    }

    fn pause(&self, account: &str, pause_ms: u64) {
        let until_ms = self.clock.monotonic_ms().saturating_add(pause_ms);
        self.lock().untold.insert(account.to_owned(), until_ms);
    }
}
