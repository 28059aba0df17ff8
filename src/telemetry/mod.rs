//! Exports the spans of ended jobs to a collector of OpenTelemetry: OTLP over HTTP, encoded as JSON. Off
//! unless `otlp.endpoint` is set.
//!
//! The transaction that ends a job puts it into a queue of the store. One thread takes ends from there.
//! [`exporter`] folds their logs into spans ([`crate::domain::spans`]), [`encode`] makes requests of them,
//! and [`sender`] sends these. An end leaves the queue once the collector has taken its spans.

mod encode;
mod exporter;
pub mod options;
mod outcome;
mod sender;
mod thread;

pub use exporter::{ExporterPorts, SpanExporter};
pub use sender::CollectorClient;
pub use thread::{SpanExportThread, SpanExportThreadError};
