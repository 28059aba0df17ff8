//! One fetch: what was counted, what stands in the store now, and the process itself. A store that does not answer costs
//! its own figures and nothing else: it is then that somebody looks.

use super::meter::Metrics;
use super::process;
use super::text::{Kind, Text};
use crate::ports::{Exposition, StatsSource, StoreStats};
use std::sync::Arc;

/// What `GET /metrics` fetches from.
pub struct Scrape {
    /// What was counted.
    pub metrics: Arc<Metrics>,
    /// What stands in the store.
    pub store: Arc<dyn StatsSource>,
}

impl Exposition for Scrape {
    fn render(&self) -> String {
        let mut text = Text::default();
        self.metrics.tell(&mut text);
        let census = self
            .store
            .stats()
            .inspect_err(|error| tracing::warn!(%error, "the store's figures cannot be read"));
        text.single(
            "nanoclaw_store_up",
            Kind::Gauge,
            "Whether the store can be read.",
            u8::from(census.is_ok()),
        );
        if let Ok(census) = census {
            tell(&mut text, &census);
        }
        process::tell(&mut text, self.metrics.facts.started_at_ms);
        text.into_string()
    }
}

#[expect(clippy::cast_precision_loss, reason = "an age of millennia would lose its milliseconds")]
fn tell(text: &mut Text, census: &StoreStats) {
    for (name, help, value) in [
        (
            "jobs_queued",
            "Jobs that have not begun, lines of batches that are no jobs yet included.",
            census.queued,
        ),
        ("jobs_ready", "Queued jobs that may run now.", census.ready),
        ("jobs_delayed", "Queued jobs that wait for their time.", census.delayed),
        ("jobs_running", "Jobs that a worker holds.", census.running),
        ("jobs_waiting", "Jobs that wait for somebody's approval of calls.", census.waiting),
        ("batches_in_progress", "Batches that have not ended.", census.batches),
        ("webhooks_pending", "Webhooks that are still to be delivered.", census.deliveries),
        ("store_file_bytes", "Size of the store's file.", census.file_bytes),
    ] {
        text.single(&format!("nanoclaw_{name}"), Kind::Gauge, help, value);
    }
    let age_s = census.oldest_ready_ms as f64 / 1_000.0;
    let help = "How long the oldest job that may run has been waiting; 0 when there is none.";
    text.single("nanoclaw_queue_oldest_seconds", Kind::Gauge, help, age_s);
    if let Some(free) = census.disk_free_bytes {
        text.single("nanoclaw_store_disk_free_bytes", Kind::Gauge, "What the store's disk has left.", free);
    }
}
