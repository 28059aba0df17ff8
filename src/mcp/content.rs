//! Converts a tool result to data for a model. Images and files are kept in the files of the job; the model
//! gets their path, type and size.

use crate::domain::characters::beginning;
use crate::ports::ToolError;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Map, Value, json};

/// Longest text of a result.
const TEXT_BYTES: usize = 1024 * 1024;
/// Largest structured result.
const STRUCTURED_BYTES: usize = 1024 * 1024;
/// Maximum number of described images and files.
const ATTACHMENTS: usize = 50;
const NAME_CHARS: usize = 500;

/// Keeps a file, given as type and base64 text. Returns its path, or why it is not kept.
pub(super) type KeepFile<'a> = &'a dyn Fn(&str, &str) -> Result<String, String>;

/// A text if there is nothing else, the structured content if the text only repeats it, else an object of
/// `text`, `structured` and `attachments`.
pub(super) fn data(result: &CallToolResult, keep: KeepFile<'_>) -> Result<Value, ToolError> {
    let text = text(&result.content);
    if result.is_error == Some(true) {
        let message = if text.is_empty() { "the tool failed and did not say why".to_owned() } else { text };
        let data = structured(result).unwrap_or(Value::Null);
        return Err(ToolError::Failed { message, data });
    }
    let attachments: Vec<Value> =
        result.content.iter().filter_map(|block| attachment(block, keep)).take(ATTACHMENTS).collect();
    let structured = structured(result);
    if attachments.is_empty() {
        match structured {
            None => return Ok(Value::String(text)),
            Some(value) if repeats(&text, &value) => return Ok(value),
            Some(value) if wraps(&text, &value) => return Ok(Value::String(text)),
            Some(_) => {}
        }
    }
    let mut data = Map::new();
    if !text.is_empty() {
        data.insert("text".to_owned(), Value::String(text));
    }
    data.extend(structured.map(|value| ("structured".to_owned(), value)));
    if !attachments.is_empty() {
        data.insert("attachments".to_owned(), Value::Array(attachments));
    }
    Ok(Value::Object(data))
}

fn text(blocks: &[ContentBlock]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        ContentBlock::Text(block) => Some(block.text.as_str()),
        _ => None,
    });
    cut(texts.collect::<Vec<_>>().join("\n"))
}

fn cut(mut text: String) -> String {
    if text.len() <= TEXT_BYTES {
        return text;
    }
    let missing = text.len() - TEXT_BYTES;
    text.truncate(beginning(&text, TEXT_BYTES).len());
    text + &format!("\n… [{missing} bytes cut: the server's answer was too long]")
}

fn structured(result: &CallToolResult) -> Option<Value> {
    let value = result.structured_content.as_ref().filter(|value| !value.is_null())?;
    let bytes = value.to_string().len();
    if bytes > STRUCTURED_BYTES {
        return Some(json!(format!("[{bytes} bytes of structured content cut: too long]")));
    }
    Some(value.clone())
}

/// Whether the text repeats the structured content, for clients that support only text.
fn repeats(text: &str, structured: &Value) -> bool {
    let is_same = |value: Value| value == *structured || only_field(structured) == Some(&value);
    text.is_empty() || serde_json::from_str(text).is_ok_and(is_same)
}

/// Whether the structured content is the text as the only field of an object.
fn wraps(text: &str, structured: &Value) -> bool {
    only_field(structured).and_then(Value::as_str) == Some(text)
}

/// The value of an object with one field.
fn only_field(object: &Value) -> Option<&Value> {
    object.as_object().filter(|fields| fields.len() == 1)?.values().next()
}

fn attachment(block: &ContentBlock, keep: KeepFile<'_>) -> Option<Value> {
    let described = |kind: &str, mime: Option<&str>, bytes: Option<u64>, name: Option<&str>| {
        let short =
            |text: &str| text.chars().filter(|c| !c.is_control()).take(NAME_CHARS).collect::<String>();
        let mut map = Map::from_iter([("kind".to_owned(), json!(kind))]);
        map.extend(name.map(|name| ("uri".to_owned(), json!(short(name)))));
        map.extend(mime.map(|mime| ("type".to_owned(), json!(short(mime)))));
        map.extend(bytes.map(|bytes| ("bytes".to_owned(), json!(bytes))));
        Some(Value::Object(map))
    };
    match block {
        ContentBlock::Image(image) => {
            let found = described("image", Some(&image.mime_type), decoded_bytes(&image.data), None);
            kept(found, keep(&image.mime_type, &image.data))
        }
        ContentBlock::Audio(audio) => {
            let found = described("audio", Some(&audio.mime_type), decoded_bytes(&audio.data), None);
            kept(found, keep(&audio.mime_type, &audio.data))
        }
        ContentBlock::ResourceLink(link) => {
            described("resource", link.mime_type.as_deref(), link.size, Some(&link.uri))
        }
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
                let bytes = u64::try_from(text.len()).ok();
                let found = described("resource", mime_type.as_deref(), bytes, Some(uri));
                with(found, "text", json!(cut(text.clone())))
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let found = described("resource", mime_type.as_deref(), decoded_bytes(blob), Some(uri));
                kept(found, keep(mime_type.as_deref().unwrap_or_default(), blob))
            }
            _ => described("resource", None, None, None),
        },
        _ => None,
    }
}

fn kept(described: Option<Value>, outcome: Result<String, String>) -> Option<Value> {
    match outcome {
        Ok(path) => with(described, "file", json!(path)),
        Err(reason) => with(described, "not_kept", json!(reason)),
    }
}

fn with(mut described: Option<Value>, key: &str, value: Value) -> Option<Value> {
    if let Some(Value::Object(map)) = &mut described {
        map.insert(key.to_owned(), value);
    }
    described
}

/// Length of the data in a base64 text.
fn decoded_bytes(text: &str) -> Option<u64> {
    u64::try_from(text.trim_end_matches('=').len().saturating_mul(3) / 4).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(result: Value) -> Result<Value, ToolError> {
        let keep = |mime: &str, _: &str| {
            if mime.is_empty() { Err("no room".to_owned()) } else { Ok(format!("kept/{mime}")) }
        };
        data(&serde_json::from_value(result).expect("a result"), &keep)
    }

    fn block(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    #[test]
    fn text_blocks_are_joined() {
        assert_eq!(of(json!({"content": [block("a"), block("b")]})), Ok(json!("a\nb")));
        assert_eq!(of(json!({"content": []})), Ok(json!("")));
    }

    #[test]
    fn structured_content_replaces_a_text_that_repeats_it() {
        let answer = json!({"t": 1.5});
        assert_eq!(
            of(json!({"content": [block("{\"t\": 1.5}")], "structuredContent": answer})),
            Ok(answer.clone())
        );
        assert_eq!(of(json!({"content": [], "structuredContent": answer})), Ok(answer.clone()));
        assert_eq!(
            of(json!({"content": [block("warm")], "structuredContent": answer})),
            Ok(json!({"text": "warm", "structured": answer}))
        );
        let list = json!({"list": [1, 2]});
        assert_eq!(of(json!({"content": [block("[1, 2]")], "structuredContent": list})), Ok(list));
        let wrapped = json!({"content": [block("a b")], "structuredContent": {"content": "a b"}});
        assert_eq!(of(wrapped), Ok(json!("a b")), "the text is not repeated");
    }

    #[test]
    fn images_and_files_are_kept_and_texts_are_shown() {
        let answer = of(json!({"content": [
            block("here"), {"type": "image", "data": "AAAA".repeat(300), "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "demo://1", "mimeType": "text/plain", "text": "hello"}},
            {"type": "resource", "resource": {"uri": "demo://2", "blob": "AAA="}},
            {"type": "resource_link", "uri": "file:///x", "name": "x", "size": 9}]}));
        assert_eq!(
            answer,
            Ok(json!({"text": "here", "attachments": [
                {"kind": "image", "type": "image/png", "bytes": 900, "file": "kept/image/png"},
                {"kind": "resource", "uri": "demo://1", "type": "text/plain", "bytes": 5, "text": "hello"},
                {"kind": "resource", "uri": "demo://2", "bytes": 2, "not_kept": "no room"},
                {"kind": "resource", "uri": "file:///x", "bytes": 9}]}))
        );
    }

    #[test]
    fn an_mcp_error_result_is_a_tool_error() {
        let error = of(json!({"content": [block("no such file")], "isError": true})).expect_err("an error");
        assert_eq!(error, ToolError::Failed { message: "no such file".to_owned(), data: Value::Null });
        assert!(of(json!({"content": [], "isError": true})).is_err());
    }

    #[test]
    fn a_long_mcp_result_is_truncated() {
        let Ok(Value::String(text)) = of(json!({"content": [block(&"é".repeat(TEXT_BYTES))]})) else {
            panic!("a text")
        };
        assert!(text.len() < TEXT_BYTES + 100 && text.ends_with("too long]"), "{}", text.len());
        let Ok(Value::String(cut)) =
            of(json!({"content": [], "structuredContent": {"x": "y".repeat(STRUCTURED_BYTES)}}))
        else {
            panic!("a word on it")
        };
        assert!(cut.contains("bytes of structured content cut"), "{cut}");
    }
}
