//! A `tracing` layer that writes one line an event, with the fields of the spans around it (`request`,
//! `job`, `attempt`).

use super::format::{LineFormat, LogFields, bounded};
use crate::ports::Clock;
use serde_json::Value;
use std::fmt::Debug;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, Scope};

/// The field of an event's message.
const MESSAGE: &str = "message";

/// Receives each line with its newline.
type LineSink = Box<dyn Fn(&str) + Send + Sync>;

pub(super) struct LogLayer {
    format: LineFormat,
    clock: Box<dyn Clock>,
    sink: LineSink,
}

impl LogLayer {
    pub(super) fn new(format: LineFormat, clock: Box<dyn Clock>, sink: LineSink) -> Self {
        Self { format, clock, sink }
    }
}

/// Collects the fields of a span or an event.
struct FieldVisitor<'a>(&'a mut LogFields);

impl FieldVisitor<'_> {
    fn insert(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for FieldVisitor<'_> {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, value);
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, value);
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, value);
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field, value);
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field, bounded(value));
    }
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.insert(field, bounded(&format!("{value:?}")));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = LogFields::new();
        attributes.record(&mut FieldVisitor(&mut fields));
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<LogFields>() {
            values.record(&mut FieldVisitor(fields));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = LogFields::new();
        for span in context.event_scope(event).into_iter().flat_map(Scope::from_root) {
            if let Some(span_fields) = span.extensions().get::<LogFields>() {
                fields.extend(span_fields.iter().map(|(name, value)| (name.clone(), value.clone())));
            }
        }
        event.record(&mut FieldVisitor(&mut fields));
        let message = match fields.shift_remove(MESSAGE) {
            Some(Value::String(message)) => message,
            _ => event.metadata().name().to_owned(),
        };
        let now_ms = self.clock.now_ms();
        (self.sink)(&self.format.line(now_ms, *event.metadata().level(), (&message, &fields)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::CancelToken;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;
    use tracing_subscriber::layer::SubscriberExt;

    struct Still;

    impl Clock for Still {
        fn now_ms(&self) -> u64 {
            0
        }
        fn monotonic_ms(&self) -> u64 {
            0
        }
        fn sleep(&self, _: &CancelToken, _: Duration) {}
    }

    #[test]
    fn a_log_line_has_its_span_fields_and_event_fields_override_them() {
        let written = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&written);
        let sink: LineSink = Box::new(move |line| sink.lock().expect("no panic").push_str(line));
        let lines = LogLayer::new(LineFormat::Journal, Box::new(Still), sink);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            let request = tracing::error_span!("request", request = "r1", job = tracing::field::Empty);
            request.in_scope(|| {
                tracing::error_span!("job", job = %"j1", attempt = 2_u32).in_scope(|| {
                    tracing::warn!(ok = true, share = 0.5, below = -1, error = ?"x", "first");
                    tracing::info!(job = "j2", "second");
                });
                request.record("job", "j3");
                tracing::error!("third");
            });
            tracing::debug!(only = 1_u64);
        });
        let written = written.lock().expect("no panic");
        let lines: Vec<&str> = written.lines().collect();
        assert_eq!(
            lines[0],
            r#"<4>first request=r1 job=j1 attempt=2 ok=true share=0.5 below=-1 error="\"x\"""#
        );
        assert_eq!(lines[1], "<6>second request=r1 job=j2 attempt=2");
        assert_eq!(lines[2], "<3>third request=r1 job=j3");
        assert!(lines[3].starts_with("<7>event ") && lines[3].ends_with(" only=1"), "{}", lines[3]);
    }
}
