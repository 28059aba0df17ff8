//! The script of the demo model: what it does for which message.
//!
//! In this order, the first that fits:
//! 1. fenced blocks of `python` (`py`), `javascript` (`js`) or `bash` (`sh`): one call for each block;
//! 2. lines `tool: NAME {json}`: one call for each line, the arguments exactly as written, `{}` when there
//!    are none;
//! 3. a line `stream: N words, M ms`: N from 1 to 100,000, M from 0 to 60,000;
//! 4. anything else is echoed.

use serde_json::json;
use std::time::Duration;

/// The most calls of one answer.
const CALLS: usize = 64;
/// The most words of a stream.
const WORDS: u32 = 100_000;
/// Longest pause between two words.
const PAUSE_MS: u64 = 60_000;

/// A call that the message asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ScriptedCall {
    /// The tool's name.
    pub(super) tool: String,
    /// The arguments as the user wrote them.
    pub(super) arguments: String,
}

/// The action that a message asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DemoAction {
    /// Calls in one batch.
    Calls(Vec<ScriptedCall>),
    /// A stream of numbered words.
    Stream {
        /// Number of words.
        words: u32,
        /// Pause between two words.
        every: Duration,
    },
    /// An explanation why the script cannot do it.
    Excuse(String),
    /// An echo of the message.
    Echo,
}

/// The action for a user's message.
pub(super) fn read(message: &str) -> DemoAction {
    let mut wanted = blocks(message);
    if wanted.is_empty() {
        wanted = message.lines().filter_map(tool_line).collect();
    }
    if wanted.len() > CALLS {
        return DemoAction::Excuse(format!(
            "I make at most {CALLS} calls at once; that were {}.",
            wanted.len()
        ));
    }
    if !wanted.is_empty() {
        return DemoAction::Calls(wanted);
    }
    message.lines().find_map(stream_line).unwrap_or(DemoAction::Echo)
}

fn blocks(message: &str) -> Vec<ScriptedCall> {
    let mut lines = message.lines();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        let Some(info) = line.trim_start().strip_prefix("```") else { continue };
        let code: Vec<&str> = lines.by_ref().take_while(|line| line.trim() != "```").collect();
        let (tool, parameter) = match info.trim().to_ascii_lowercase().as_str() {
            "python" | "py" => ("execute_python", "code"),
            "javascript" | "js" => ("execute_javascript", "code"),
            "bash" | "sh" => ("bash", "command"),
            _ => continue,
        };
        let arguments = json!({parameter: code.join("\n")}).to_string();
        found.push(ScriptedCall { tool: tool.to_owned(), arguments });
    }
    found
}

fn tool_line(line: &str) -> Option<ScriptedCall> {
    let call = line.trim().strip_prefix("tool:")?.trim();
    let (tool, arguments) = call.split_once(char::is_whitespace).unwrap_or((call, ""));
    let arguments = if arguments.trim().is_empty() { "{}" } else { arguments.trim() };
    (!tool.is_empty()).then(|| ScriptedCall { tool: tool.to_owned(), arguments: arguments.to_owned() })
}

fn stream_line(line: &str) -> Option<DemoAction> {
    let (words, pause) = line.trim().strip_prefix("stream:")?.split_once(',')?;
    let words = words.trim().strip_suffix("words").or_else(|| words.trim().strip_suffix("word"))?.trim();
    let millis = pause.trim().strip_suffix("ms")?.trim();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(words) || !is_number(millis) {
        return None;
    }
    match (words.parse(), millis.parse()) {
        (Ok(words @ 1..=WORDS), Ok(pause @ 0..=PAUSE_MS)) => {
            Some(DemoAction::Stream { words, every: Duration::from_millis(pause) })
        }
        _ => Some(DemoAction::Excuse(format!("I stream 1 to {WORDS} words, 0 to {PAUSE_MS} ms apart."))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(tool: &str, arguments: &str) -> ScriptedCall {
        ScriptedCall { tool: tool.into(), arguments: arguments.into() }
    }

    #[test]
    fn fenced_code_blocks_become_tool_calls() {
        let message =
            "Run\n```python\nprint(1)\n\nprint(2)\n```\nand inline ```js\n ```Bash\nls\n```\n```rust\nx\n```";
        let expected = [
            wanted("execute_python", r#"{"code":"print(1)\n\nprint(2)"}"#),
            wanted("bash", r#"{"command":"ls"}"#),
        ];
        assert_eq!(read(message), DemoAction::Calls(expected.into()));
        let open = read("```js\n1+1");
        assert_eq!(open, DemoAction::Calls(vec![wanted("execute_javascript", r#"{"code":"1+1"}"#)]));
    }

    #[test]
    fn tool_lines_become_one_batch_of_unchanged_calls() {
        let message = "please\ntool: calculator {\"expression\": \"1+1\"}\n  tool: nope\ntool: x {bad\ntool:";
        let expected =
            [wanted("calculator", "{\"expression\": \"1+1\"}"), wanted("nope", "{}"), wanted("x", "{bad")];
        assert_eq!(read(message), DemoAction::Calls(expected.into()));
    }

    #[test]
    fn p8_demo_streams_and_batches_are_bounded() {
        let every = Duration::from_millis(50);
        assert_eq!(read("stream: 100 words, 50 ms"), DemoAction::Stream { words: 100, every });
        assert_eq!(read("stream:1 word,50ms"), DemoAction::Stream { words: 1, every });
        for beyond in [
            "stream: 0 words, 1 ms",
            "stream: 100001 words, 1 ms",
            "stream: 1 words, 99999999999999999999 ms",
        ] {
            assert!(matches!(read(beyond), DemoAction::Excuse(_)), "{beyond}");
        }
        assert!(matches!(read(&"tool: x\n".repeat(65)), DemoAction::Excuse(_)));
    }

    #[test]
    fn other_messages_are_echoed() {
        for message in ["", "hello", "stream: many words, 5 ms", "stream: -1 words, 5 ms", "the tool: x"] {
            assert_eq!(read(message), DemoAction::Echo, "{message}");
        }
    }
}
