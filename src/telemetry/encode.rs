//! Encodes spans as OTLP JSON: ids in hexadecimal digits, 64-bit numbers as strings, names in camel case.

use crate::domain::spans::{SCHEMA_URL, SpanAttributes, SpanKind, SpanValue, TraceSpan};
use serde_json::{Value, json};

/// Largest request, bytes; one span may exceed it.
const REQUEST_BYTES: usize = 1_024 * 1_024;
/// Most spans of one request.
const REQUEST_SPANS: usize = 512;

/// A request for the collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExportRequest {
    /// The JSON text.
    pub(super) body: String,
    /// How many spans it holds.
    pub(super) spans: u64,
}

/// Makes requests of spans.
#[derive(Debug)]
pub(super) struct RequestEncoder {
    /// The text before and behind the spans.
    envelope: (String, &'static str),
}

/// Spans that become requests.
#[derive(Debug, Default)]
pub(super) struct EncodedSpans {
    spans: Vec<String>,
    /// Size of all, bytes.
    pub(super) bytes: usize,
}

impl RequestEncoder {
    /// For spans of this service.
    pub(super) fn new(service_name: &str, instance: &str) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        let attributes = [
            ("service.name", service_name),
            ("service.version", version),
            ("service.instance.id", instance),
            ("telemetry.sdk.name", "nanoclaw"),
            ("telemetry.sdk.language", "rust"),
        ];
        let attributes: Vec<Value> = attributes
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(key, value)| json!({"key": key, "value": {"stringValue": value}}))
            .collect();
        let resource = json!({"attributes": attributes});
        let scope = json!({"name": "nanoclaw", "version": version});
        let head = format!(
            "{{\"resourceSpans\":[{{\"resource\":{resource},\"schemaUrl\":\"{SCHEMA_URL}\",\
             \"scopeSpans\":[{{\"scope\":{scope},\"schemaUrl\":\"{SCHEMA_URL}\",\"spans\":["
        );
        Self { envelope: (head, "]}]}]}") }
    }

    /// The requests for these spans, in order.
    pub(super) fn requests(&self, encoded: EncodedSpans) -> Vec<ExportRequest> {
        let (mut requests, mut spans, mut bytes): (_, Vec<String>, usize) = (Vec::new(), Vec::new(), 0);
        for span in encoded.spans {
            let is_full = bytes.saturating_add(span.len()) > REQUEST_BYTES || spans.len() >= REQUEST_SPANS;
            if is_full && !spans.is_empty() {
                requests.push(self.request(&std::mem::take(&mut spans)));
                bytes = 0;
            }
            bytes = bytes.saturating_add(span.len());
            spans.push(span);
        }
        if !spans.is_empty() {
            requests.push(self.request(&spans));
        }
        requests
    }

    fn request(&self, spans: &[String]) -> ExportRequest {
        let (head, tail) = &self.envelope;
        ExportRequest { body: format!("{head}{}{tail}", spans.join(",")), spans: spans.len() as u64 }
    }
}

impl EncodedSpans {
    /// Adds spans.
    pub(super) fn extend(&mut self, spans: &[TraceSpan]) {
        for span in spans {
            let text = encoded(span).to_string();
            self.bytes = self.bytes.saturating_add(text.len());
            self.spans.push(text);
        }
    }
}

fn encoded(span: &TraceSpan) -> Value {
    let kind = match span.kind {
        SpanKind::Internal => 1,
        SpanKind::Client => 3,
    };
    let mut value = json!({
        "traceId": span.trace.to_string(),
        "spanId": span.id.to_string(),
        "name": span.name,
        "kind": kind,
        "startTimeUnixNano": nanos(span.started_at_ms),
        "endTimeUnixNano": nanos(span.ended_at_ms),
        "attributes": attributes(&span.attributes),
    });
    let mut set = |name: &str, field: Value| {
        if let Some(fields) = value.as_object_mut() {
            fields.insert(name.to_owned(), field);
        }
    };
    if let Some(parent) = span.parent {
        set("parentSpanId", parent.to_string().into());
    }
    if let Some((trace, id)) = span.link {
        set("links", json!([{"traceId": trace.to_string(), "spanId": id.to_string()}]));
    }
    match &span.error {
        Some(message) if message.is_empty() => set("status", json!({"code": 2})),
        Some(message) => set("status", json!({"code": 2, "message": message})),
        None => {}
    }
    value
}

fn nanos(at_ms: u64) -> String {
    (u128::from(at_ms) * 1_000_000).to_string()
}

fn attributes(attributes: &SpanAttributes) -> Vec<Value> {
    attributes.0.iter().map(|(key, value)| json!({"key": key, "value": attribute(value)})).collect()
}

fn attribute(value: &SpanValue) -> Value {
    match value {
        SpanValue::Text(text) => json!({"stringValue": text}),
        SpanValue::Number(number) => {
            json!({"intValue": i64::try_from(*number).unwrap_or(i64::MAX).to_string()})
        }
        SpanValue::Flag(is_set) => json!({"boolValue": is_set}),
        SpanValue::Texts(texts) => {
            let values: Vec<Value> = texts.iter().map(|text| json!({"stringValue": text})).collect();
            json!({"arrayValue": {"values": values}})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_split_by_their_number_of_spans_and_by_their_bytes() {
        let encoder = RequestEncoder::new("a \"service\"", "");
        let texts = |count: usize, bytes: usize| EncodedSpans {
            spans: (0..count).map(|_| format!("\"{}\"", "x".repeat(bytes))).collect(),
            bytes: 0,
        };
        let counts =
            |encoded| -> Vec<u64> { encoder.requests(encoded).iter().map(|request| request.spans).collect() };
        assert_eq!(counts(texts(0, 1)), [0_u64; 0]);
        assert_eq!(counts(texts(REQUEST_SPANS + 1, 1)), [REQUEST_SPANS as u64, 1]);
        assert_eq!(counts(texts(3, REQUEST_BYTES / 2)), [1, 1, 1]);
        assert_eq!(counts(texts(2, 2 * REQUEST_BYTES)), [1, 1], "one span may be larger");
        let request = &encoder.requests(texts(2, 1))[0];
        let body: Value = serde_json::from_str(&request.body).expect("JSON");
        assert_eq!(body["resourceSpans"][0]["scopeSpans"][0]["spans"], json!(["x", "x"]));
        assert_eq!(
            body["resourceSpans"][0]["resource"]["attributes"][0],
            json!({"key": "service.name", "value": {"stringValue": "a \"service\""}})
        );
    }
}
