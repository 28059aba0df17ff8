//! The script of the demo model: what it does for which message.
//!
//! In this order, the first that fits:
//! 1. fenced blocks of `python` (`py`), `javascript` (`js`) or `bash` (`sh`): one call for each block;
//! 2. lines `tool: NAME {json}`: one call for each line, the arguments exactly as written, `{}` when there
//!    are none;
//! 3. a line `stream: N words, M ms`: N from 1 to 100,000, M from 0 to 60,000;
//! 4. a plain question of arithmetic, such as "what is 12*7?": one call of `calculator`;
//! 5. anything else is echoed.

use serde_json::json;
use std::time::Duration;

/// The most calls of one answer.
const CALLS: usize = 64;
/// The most words of a stream.
const WORDS: u32 = 100_000;
/// The tool for arithmetic.
const CALCULATOR: &str = "calculator";
/// What may stand before the expression of a question.
const QUESTIONS: [&str; 5] = ["what is ", "what's ", "how much is ", "calculate ", "compute "];
/// Longest expression, bytes.
const EXPRESSION_BYTES: usize = 200;
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
    /// A call of the calculator, if the job offers it; otherwise an echo.
    Compute(ScriptedCall),
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
    let stream = message.lines().find_map(stream_line);
    stream.or_else(|| arithmetic(message)).unwrap_or(DemoAction::Echo)
}

/// A call of the calculator for a message that asks for the value of an expression.
fn arithmetic(message: &str) -> Option<DemoAction> {
    let text = message.trim();
    let after = |opening: &&str| {
        let head = text.get(..opening.len())?;
        head.eq_ignore_ascii_case(opening).then(|| text.get(opening.len()..))?
    };
    let rest = QUESTIONS.iter().find_map(after).unwrap_or(text);
    let is_part = |c: char| c.is_ascii_digit() || " .()+-*/^%×÷".contains(c);
    let (expression, end) = rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
    let expression = expression.trim().trim_end_matches(['.', ' ']);
    // Two numbers with an operator between them, and nothing glued to the last one.
    let mut numbers = expression.split(|c: char| !c.is_ascii_digit() && c != '.').filter(|n| !n.is_empty());
    let has_numbers = numbers.next().is_some() && numbers.next().is_some();
    let is_whole = end.is_empty() || end.starts_with(['?', ',', '=', '!']);
    let has_operator = expression.trim_start_matches('-').contains(['+', '-', '*', '/', '^', '%', '×', '÷']);
    if !has_numbers || !has_operator || !is_whole || expression.len() > EXPRESSION_BYTES {
        return None;
    }
    let arguments = json!({"expression": expression.replace('×', "*").replace('÷', "/")}).to_string();
    Some(DemoAction::Compute(ScriptedCall { tool: CALCULATOR.to_owned(), arguments }))
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
    fn a_plain_question_of_arithmetic_becomes_a_call_of_the_calculator() {
        for (message, expression) in [
            ("what is 12*7?", "12*7"),
            ("What is 2^127 - 1, and is it prime?", "2^127 - 1"),
            ("how much is (1.5 + 2) × 3", "(1.5 + 2) * 3"),
            (" 17*23 = ", "17*23"),
            ("What's -3 - 4.", "-3 - 4"),
        ] {
            let call = wanted("calculator", &json!({"expression": expression}).to_string());
            assert_eq!(read(message), DemoAction::Compute(call), "{message}");
        }
        for message in [
            "what is 12?",
            "what is love?",
            "what is -3?",
            "what is 2 + 2 in binary?",
            "what is a*b?",
            "3 apples + 4 pears",
            "chapter 1-2",
            &"1+".repeat(200),
        ] {
            assert_eq!(read(message), DemoAction::Echo, "{message}");
        }
    }

    #[test]
    fn other_messages_are_echoed() {
        for message in ["", "hello", "stream: many words, 5 ms", "stream: -1 words, 5 ms", "the tool: x"] {
            assert_eq!(read(message), DemoAction::Echo, "{message}");
        }
    }
}
