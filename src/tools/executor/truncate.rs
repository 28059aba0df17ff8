//! Shortens results for models.
//!
//! The full texts of everything that was cut, joined, are the *document*. The marker of each cut points into
//! it. Offsets count characters without JSON escapes, as the model reads them.

use crate::domain::handle::ResultHandle;
use serde_json::Value;

/// Shorter texts are not cut.
const CAP_MIN_CHARS: usize = 100;
/// Characters of a marker without its hint.
const MARKER_CHARS: usize = 64;
/// Characters of the hint without the names in it.
const HINT_CHARS: usize = 64;

/// How the model reads the full text.
#[derive(Debug, Clone)]
pub(super) struct FullResultReader {
    pub(super) tool: String,
    pub(super) handle: ResultHandle,
}

/// The limits of a result.
#[derive(Debug, Clone)]
pub(super) struct ResultLimits {
    /// The longest JSON for the model.
    pub(super) chars: usize,
    /// The longest full text that is stored.
    pub(super) bytes: usize,
    /// `None`: the job cannot read full texts, so none is stored.
    pub(super) reader: Option<FullResultReader>,
}

/// The result within the limits, and the document. Long texts keep head and tail, all with the same length.
/// If that is not enough, the data becomes one JSON text and is cut likewise. The JSON stays valid.
pub(super) fn truncated(result: Value, limits: &ResultLimits) -> (Value, Option<String>) {
    if fits(&result, limits.chars) {
        return (result, None);
    }
    let (result, cap) = if let Some(cap) = longest_fit(&result, limits) {
        (result, cap)
    } else {
        let flat = flattened(result);
        let cap = longest_fit(&flat, limits).unwrap_or(CAP_MIN_CHARS);
        (flat, cap)
    };
    let mut truncator = TextTruncator::new(cap, limits);
    let short = truncator.value(&result);
    let full_text =
        limits.reader.is_some().then(|| head_and_tail(&document(&result, &truncator), limits.bytes));
    (short, full_text.filter(|_| truncator.document_chars > 0))
}

fn fits(value: &Value, limit: usize) -> bool {
    value.to_string().chars().count() <= limit
}

/// The greatest length of texts with which the result fits; `None` if even the shortest texts do not fit.
fn longest_fit(result: &Value, limits: &ResultLimits) -> Option<usize> {
    let fits_at = |cap| fits(&TextTruncator::new(cap, limits).value(result), limits.chars);
    if !fits_at(CAP_MIN_CHARS) {
        return None;
    }
    let (mut fitting, mut failing) = (CAP_MIN_CHARS, limits.chars);
    while failing.saturating_sub(fitting) > 1 {
        let cap = fitting.midpoint(failing);
        if fits_at(cap) { fitting = cap } else { failing = cap }
    }
    Some(fitting)
}

/// Cuts the texts of one result.
struct TextTruncator<'a> {
    cap: usize,
    /// Longer texts are cut. The cut part is longer than the marker.
    max_chars: usize,
    reader: Option<&'a FullResultReader>,
    /// Characters of the document so far.
    document_chars: usize,
}

impl<'a> TextTruncator<'a> {
    fn new(cap: usize, limits: &'a ResultLimits) -> Self {
        let hint =
            |reader: &FullResultReader| HINT_CHARS + reader.tool.len() + reader.handle.to_string().len();
        let marker = MARKER_CHARS + limits.reader.as_ref().map_or(0, hint);
        Self { cap, max_chars: cap.saturating_add(marker), reader: limits.reader.as_ref(), document_chars: 0 }
    }

    /// A copy in which no text is longer than the cap and its marker.
    fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(map) => map.iter().map(|(name, item)| (name.clone(), self.value(item))).collect(),
            other => other.clone(),
        }
    }

    fn text(&mut self, text: &str) -> String {
        let length = text.chars().count();
        if length <= self.max_chars {
            return text.to_owned();
        }
        let (head, tail) = (self.cap.div_ceil(2), self.cap / 2);
        let first: String = text.chars().take(head).collect();
        let last: String = text.chars().skip(length.saturating_sub(tail)).collect();
        let cut = length.saturating_sub(self.cap);
        let hint = self.reader.map_or_else(String::new, |FullResultReader { tool, handle }| {
            let offset = self.document_chars.saturating_add(head);
            format!("; {tool} {{\"handle\":\"{handle}\",\"offset\":{offset}}} shows them")
        });
        // The line break between two texts of the document counts as well.
        self.document_chars = self.document_chars.saturating_add(length).saturating_add(1);
        format!("{first}\n… [{cut} of {length} characters cut{hint}] …\n{last}")
    }
}

/// The texts that were cut, in order.
fn document(result: &Value, truncator: &TextTruncator<'_>) -> String {
    let mut texts = Vec::new();
    collect_long_texts(result, truncator.max_chars, &mut texts);
    texts.join("\n")
}

fn collect_long_texts<'v>(value: &'v Value, max_chars: usize, texts: &mut Vec<&'v str>) {
    match value {
        Value::String(text) if text.chars().count() > max_chars => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| collect_long_texts(item, max_chars, texts)),
        Value::Object(map) => map.values().for_each(|item| collect_long_texts(item, max_chars, texts)),
        _ => {}
    }
}

/// Head and tail of the document within `bytes`.
fn head_and_tail(document: &str, bytes: usize) -> String {
    if document.len() <= bytes {
        return document.to_owned();
    }
    let (mut head, mut tail) = (bytes / 2, document.len().saturating_sub(bytes / 2));
    while !document.is_char_boundary(head) {
        head = head.saturating_sub(1);
    }
    while !document.is_char_boundary(tail) {
        tail = tail.saturating_add(1);
    }
    let (first, last) = (document.get(..head).unwrap_or_default(), document.get(tail..).unwrap_or_default());
    format!("{first}\n… [{} bytes are kept nowhere] …\n{last}", tail.saturating_sub(head))
}

fn flattened(mut result: Value) -> Value {
    if let Some(data) = result.get_mut("data").filter(|data| !data.is_null()) {
        *data = Value::String(data.to_string());
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::JobId;
    use serde_json::json;

    fn result_limits(chars: usize, bytes: usize) -> ResultLimits {
        let handle = ResultHandle::of(JobId::from_bits(5), "call_0");
        ResultLimits { chars, bytes, reader: Some(FullResultReader { tool: "look".to_owned(), handle }) }
    }

    /// The document from the offset in the marker on.
    fn text_at_marker<'d>(shown: &str, document: &'d str) -> &'d str {
        let offset =
            shown.split("\"offset\":").nth(1).and_then(|tail| tail.split('}').next()).expect("an offset");
        let offset: usize = offset.parse().expect("a number");
        let at = document.char_indices().nth(offset).expect("inside").0;
        &document[at..]
    }

    #[test]
    fn the_truncation_marker_points_to_the_omitted_text() {
        let lines: Vec<String> = (0..20_000).map(|n| format!("line {n} é\n")).collect();
        let text = lines.concat();
        let (short, full_text) =
            truncated(json!({"data": {"output": text, "status": "ok"}}), &result_limits(16_000, 1 << 20));
        assert!(fits(&short, 16_000) && !fits(&short, 15_000), "no more is cut than must be");
        let full_text = full_text.expect("kept");
        assert_eq!(full_text, text, "as it was, without JSON's escapes");
        let shown = short["data"]["output"].as_str().expect("a text");
        let (head, _) = shown.split_once("\n… [").expect("a marker");
        assert_eq!(format!("{head}{}", text_at_marker(shown, &full_text)), text);
        let handle = ResultHandle::of(JobId::from_bits(5), "call_0");
        assert!(
            shown.contains(&format!("characters cut; look {{\"handle\":\"{handle}\",\"offset\":")),
            "{shown}"
        );
    }

    #[test]
    fn each_truncation_marker_points_to_its_own_text() {
        let (a, b) = ("a".repeat(20_000), "b".repeat(30_000));
        let (short, full_text) =
            truncated(json!({"a": a, "short": "s", "b": b}), &result_limits(16_000, 1 << 20));
        let full_text = full_text.expect("kept");
        assert_eq!(full_text, format!("{a}\n{b}"));
        let second = short["b"].as_str().expect("a text");
        let shown = second.chars().take_while(|c| *c == 'b').count();
        assert_eq!(text_at_marker(second, &full_text).len(), 30_000 - shown);
        let many = json!({"data": vec![123_456; 20_000]});
        let (_, full_text) = truncated(many.clone(), &result_limits(16_000, 1 << 20));
        assert_eq!(full_text, Some(many["data"].to_string()), "what has no long text is one");
    }

    #[test]
    fn p8_a_stored_full_result_is_bounded_and_needs_a_reader_tool() {
        let text = "é".repeat(50_000);
        let (_, full_text) = truncated(json!(text), &result_limits(1_000, 10_001));
        let full_text = full_text.expect("kept");
        assert!(full_text.len() < 10_100 && full_text.contains("are kept nowhere"), "{}", full_text.len());
        assert!(full_text.starts_with("éé") && full_text.ends_with("éé"));
        let (short, full_text) =
            truncated(json!(text), &ResultLimits { reader: None, ..result_limits(1_000, 10_000) });
        assert!(full_text.is_none() && short.as_str().is_some_and(|text| text.contains("characters cut] …")));
        assert_eq!(truncated(json!("short"), &result_limits(1_000, 10_000)), (json!("short"), None));
    }
}
