//! Starts the export of spans, if a collector is configured.

use super::error::AppError;
use crate::config::Config;
use crate::domain::spans::SpanOptions;
use crate::engine::EnginePorts;
use crate::llm::model_identities;
use crate::ports::NodeStore;
use crate::telemetry::{CollectorClient, ExporterPorts, SpanExportThread, SpanExporter};
use std::sync::Arc;

/// Starts to export, including ends of an earlier process.
pub(super) fn start(
    config: &Config,
    ports: &EnginePorts,
    store: &Arc<dyn NodeStore>,
) -> Result<Option<SpanExportThread>, AppError> {
    let Some(collector) = CollectorClient::new(&config.otlp) else { return Ok(None) };
    let options = SpanOptions {
        models: model_identities(&config.models),
        include_content: config.otlp.include_content,
    };
    let (clock, meter) = (Arc::clone(&ports.clock), Arc::clone(&ports.meter));
    let service = (config.otlp.service_name.as_str(), config.store.node_name.as_deref().unwrap_or_default());
    let exporter = SpanExporter::new(
        ExporterPorts { store: Arc::clone(store), clock, meter },
        collector,
        options,
        service,
        config.otlp.timeout_s,
    );
    let thread = SpanExportThread::start(exporter, Arc::clone(&ports.clock), Arc::clone(&ports.entropy))?;
    Ok(Some(thread))
}
