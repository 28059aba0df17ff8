//! One scrape: the counted metrics, the state of the store, and the process. If the store cannot be read,
//! only its own metrics are missing.

use super::meter::Metrics;
use super::process::{self, gauge};
use crate::ports::{Cluster, Exposition, NodeState, StatsSource, StoreStats};
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{Error, IntGaugeVec, Opts, TextEncoder};
use std::sync::Arc;

/// The sources of `GET /metrics`.
pub struct Scrape {
    /// The counted metrics.
    pub metrics: Arc<Metrics>,
    /// The state of the store.
    pub store: Arc<dyn StatsSource>,
    /// This node among others.
    pub cluster: Arc<dyn Cluster>,
}

impl Scrape {
    fn families(&self) -> Result<Vec<MetricFamily>, Error> {
        let mut families = self.metrics.registry.gather();
        let stats = self.store.stats();
        let is_up = f64::from(u8::from(stats.is_ok()));
        families.extend(gauge("nanoclaw_store_up", "Whether the store can be read.", is_up)?);
        match stats {
            Ok(stats) => {
                for (name, help, value) in store_gauges(&stats) {
                    families.extend(gauge(name, help, value)?);
                }
            }
            Err(error) => tracing::warn!(%error, "cannot read the metrics of the store"),
        }
        if let Some(node) = self.cluster.node_state() {
            families.extend(node_gauges(&node)?);
        }
        families.extend(process::families(self.metrics.started_at_ms)?);
        Ok(families)
    }
}

impl Exposition for Scrape {
    fn render(&self) -> String {
        let text = self.families().and_then(|families| TextEncoder::new().encode_to_string(&families));
        text.unwrap_or_else(|error| {
            tracing::error!(%error, "cannot render the metrics");
            String::new()
        })
    }
}

/// The cluster as of the last heartbeat of this node.
#[expect(clippy::cast_precision_loss, reason = "the text format has doubles only")]
fn node_gauges(node: &NodeState) -> Result<Vec<MetricFamily>, Error> {
    let nodes = IntGaugeVec::new(
        Opts::new("nanoclaw_nodes", "Nodes that share the database; lost ones wait to be taken over."),
        &["state"],
    )?;
    for (state, count) in [("live", node.live_nodes), ("lost", node.lost_nodes)] {
        nodes.get_metric_with_label_values(&[state])?.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
    let mut families = nodes.collect();
    let lease = "Rest of the lease of this node; 0: it has none and runs no jobs.";
    families.extend(gauge("nanoclaw_node_lease_seconds", lease, node.lease_ms as f64 / 1_000.0)?);
    families.extend(gauge("nanoclaw_node_jobs", "Jobs that this node runs.", node.jobs as f64)?);
    let silent = "Time since the database answered a heartbeat of this node.";
    let takes =
        "Whether this node takes jobs: it has a lease and, if store.shared_dir is set, sees that directory.";
    families.extend(gauge("nanoclaw_node_takes_jobs", takes, f64::from(u8::from(node.takes_jobs)))?);
    families.extend(gauge("nanoclaw_node_silent_seconds", silent, node.silent_ms as f64 / 1_000.0)?);
    Ok(families)
}

#[expect(clippy::cast_precision_loss, reason = "the text format has doubles only")]
fn store_gauges(stats: &StoreStats) -> Vec<(&'static str, &'static str, f64)> {
    let mut gauges = vec![
        (
            "nanoclaw_jobs_queued",
            "Jobs that have not begun, lines of batches that are no jobs yet included.",
            stats.queued as f64,
        ),
        ("nanoclaw_jobs_ready", "Queued jobs that may run now.", stats.ready as f64),
        ("nanoclaw_jobs_delayed", "Queued jobs that wait for their time.", stats.delayed as f64),
        ("nanoclaw_jobs_running", "Jobs that a worker holds.", stats.running as f64),
        ("nanoclaw_jobs_waiting", "Jobs that wait for somebody's approval of calls.", stats.waiting as f64),
        ("nanoclaw_batches_in_progress", "Batches that have not ended.", stats.batches as f64),
        ("nanoclaw_webhooks_pending", "Webhooks that are still to be delivered.", stats.deliveries as f64),
        ("nanoclaw_store_file_bytes", "Size of the store's file.", stats.file_bytes as f64),
        (
            "nanoclaw_store_damaged_rows",
            "Damaged places of the store that were found, rows that were set aside included.",
            stats.damaged_rows as f64,
        ),
        (
            "nanoclaw_queue_oldest_seconds",
            "How long the oldest job that may run has been waiting; 0 when there is none.",
            stats.oldest_ready_ms as f64 / 1_000.0,
        ),
    ];
    let free = stats.disk_free_bytes.map(|bytes| bytes as f64);
    gauges.extend(
        free.map(|bytes| ("nanoclaw_store_disk_free_bytes", "What the store's disk has left.", bytes)),
    );
    gauges
}
