//! What is counted, and what is told of it. Owns the facts that the metrics are given.

use crate::config::Config;
use crate::metrics::{Facts, Metrics, Scrape};
use crate::ports::{Clock, Exposition, Meter};
use crate::store::RedbStore;
use std::sync::Arc;

/// Nothing has happened yet; the same twice: what is read from, and what is written to.
pub(super) fn begin(config: &Config, clock: &dyn Clock) -> (Arc<Metrics>, Arc<dyn Meter>) {
    let metrics = Arc::new(Metrics::new(Facts {
        version: env!("CARGO_PKG_VERSION"),
        started_at_ms: clock.now_ms(),
        workers: config.workers,
        models: config.models.iter().map(|model| model.id.clone()).collect(),
    }));
    (Arc::clone(&metrics), metrics)
}

/// What `/metrics` says.
pub(super) fn exposition(metrics: Arc<Metrics>, store: &Arc<RedbStore>) -> Arc<dyn Exposition> {
    Arc::new(Scrape { metrics, store: Arc::<RedbStore>::clone(store) })
}
