//! Calls are found however the text is cut, and all other text stays as it is.

use super::*;
use proptest::prelude::*;

fn names() -> Vec<String> {
    ["calc", "calculator", "get_weather"].map(str::to_owned).to_vec()
}

/// The remaining text and the calls (name and arguments) of a text that arrives in slices of so many
/// characters.
fn read(text: &str, slice: usize, names: Vec<String>) -> (String, Vec<(String, String)>) {
    let mut reader = TextCalls::new(names);
    let chars: Vec<char> = text.chars().collect();
    let mut left = String::new();
    let mut calls = Vec::new();
    for piece in chars.chunks(slice.max(1)) {
        left += &reader.push(&piece.iter().collect::<String>());
        calls.extend(reader.take());
    }
    left += &reader.finish();
    calls.extend(reader.take());
    (left, calls.into_iter().map(|call| (call.name, call.arguments)).collect())
}

/// The remaining text, and the calls as `name arguments`.
fn found(text: &str) -> (String, Vec<String>) {
    let (left, calls) = read(text, usize::MAX, names());
    (left, calls.into_iter().map(|(name, arguments)| format!("{name} {arguments}")).collect())
}

const CALC: &str = r#"{"name":"calc","arguments":{"n":1}}"#;

#[test]
fn every_known_form_of_a_text_call_is_parsed() {
    let one = || vec!["calc {\"n\":1}".to_owned()];
    for text in [
        format!("<tool_call>{CALC}</tool_call>"),
        format!("<tool_call>\n{CALC}\n</tool_call>\n"),
        format!("<tool_call>\n{CALC}"),
        format!("<tool_call>\n{CALC}\n</tool_ca"),
        "<tool_call><function=calc>{\"n\":1}</function></tool_call>".to_owned(),
        "<tool_call>\n<function=calc>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>".to_owned(),
        format!("```json\n{CALC}\n```"),
        format!("```json\n[{CALC}]\n```\n"),
        format!("```\n{CALC}\n```"),
        format!("```tool_call\n{CALC}"),
        CALC.to_owned(),
        format!("\n  {CALC}  \n"),
        format!("[{CALC}]"),
        format!("[\n  {CALC}\n]"),
        r#"{"type": "function", "function": {"name": "calc", "arguments": "{\"n\":1}"}}"#.to_owned(),
        r#"{"arguments": {"n": 1}, "name": "calc"}"#.to_owned(),
        r#"{"id": "x", "function": "calc", "parameters": {"n": 1}}"#.to_owned(),
    ] {
        let (left, calls) = found(&text);
        let is_text = text.contains("<parameter=");
        let expected = if is_text { vec!["calc {\"n\":\"1\"}".to_owned()] } else { one() };
        assert_eq!((left.as_str(), calls), ("", expected), "{text}");
    }
}

#[test]
fn consecutive_text_calls_are_all_parsed() {
    let other = r#"{"name":"get_weather","arguments":{}}"#;
    for text in [
        format!("<tool_call>{CALC}</tool_call>\n<tool_call>{other}</tool_call>"),
        format!("<tool_call>\n{CALC}\n{other}\n</tool_call>"),
        format!("{CALC}\n{other}"),
        format!("{CALC}{other}"),
        format!("{CALC}, {other}"),
        format!("{CALC};\n{other};"),
        format!("[{CALC}, {other}]"),
        format!("```json\n{CALC}\n{other}\n```"),
        format!("```json\n{CALC}\n```\n\n```json\n{other}\n```"),
    ] {
        let expected = vec!["calc {\"n\":1}".to_owned(), "get_weather {}".to_owned()];
        assert_eq!(found(&text), (String::new(), expected), "{text}");
    }
}

#[test]
fn a_quoted_call_is_an_example_and_stays_text() {
    for text in [
        format!("An example:\n```json\n{CALC}\n```\nSo."),
        format!("Write `<tool_call>{CALC}</tool_call>` for it."),
        format!("Write \"<tool_call>{CALC}</tool_call>\" for it."),
    ] {
        assert_eq!(found(&text), (text.clone(), Vec::new()), "{text}");
    }
}

#[test]
fn the_text_around_a_call_is_kept() {
    for (text, left) in [
        (format!("Let me see.\n{CALC}"), "Let me see.\n"),
        (format!("Let me see: <tool_call>{CALC}</tool_call>\n\nThere."), "Let me see: \n\nThere."),
        (format!("{CALC}\nDone."), "\nDone."),
        (format!("x < y [1] `z`\n{CALC}\n"), "x < y [1] `z`\n"),
    ] {
        assert_eq!(found(&text), (left.to_owned(), vec!["calc {\"n\":1}".to_owned()]), "{text}");
    }
}

#[test]
fn text_that_is_no_call_stays_byte_for_byte() {
    for text in [
        r#"{"name":"unknown","arguments":{}}"#,
        r#"<tool_call>{"name":"unknown","arguments":{}}</tool_call>"#,
        r#"<tool_call>{"name":"calc"}</tool_call>"#,
        "<function=calc>{}</function>",
        "<tool_call><function=nope>{}</function></tool_call>",
        "<tool_call><function=calc>nonsense</function></tool_call>",
        "[TOOL_CALLS]calc{\"n\":1}",
        "```json\n{\"a\": 1}\n```\n",
        "```rust\nfn main() {}\n```",
        "The form is {\"name\":\"calc\",\"arguments\":{}} in one line.",
        "{\"name\":\"calc\",\"arguments\":{}} is the form.",
        "{\"name\":\"calc\",\"arguments\":{}}, as I said",
        "{\"name\":\"calc\",\"arguments\":{\"a\":",
        "{\"name\":\"calc\",\"arguments\":[1]}",
        "[{\"name\":\"calc\",\"arguments\":{}},{\"name\":\"x\",\"arguments\":{}}]",
        "[link](x)\n[ ] todo\n[[\n{ a: 1 }",
        "   \n ",
        "``` ```` ` `` ``",
        "<tool_call><tool_call>",
        "<|python_tag|>print(1)",
        "<tool",
        "",
    ] {
        assert_eq!(found(text), (text.to_owned(), Vec::new()), "{text}");
    }
}

#[test]
fn text_that_cannot_become_a_call_is_emitted_at_once() {
    for (text, kept) in [
        ("Hello", ""),
        ("a <b", ""),
        ("a <to", "<to"),
        ("```json\n{\"answer\"", ""),
        ("```js\n", ""),
        ("{\"answer", ""),
        ("{\"name\": \"Bo", ""),
        ("{\"name\": \"ca", "{\"name\": \"ca"),
        ("{\"type\": \"object", ""),
        ("<tool_call>so", ""),
        ("[1", ""),
    ] {
        let mut reader = TextCalls::new(names());
        assert_eq!(reader.push(text), text.strip_suffix(kept).expect("a suffix"), "{text}");
    }
}

#[test]
fn p8_no_text_makes_the_scan_slow() {
    for text in ["<tool_call>".repeat(100_000), "{\"name\":".repeat(100_000), "```\n".repeat(100_000)] {
        assert_eq!(read(&text, 1000, names()).0, text);
    }
    let long = format!("{{\"name\":\"calc\",\"arguments\":{{\"x\":\"{}\"}}}}", "}{".repeat(500_000));
    assert_eq!(read(&long, 3, names()).1.len(), 1);
}

fn call_like_text() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        Just("<tool_call>"),
        Just("</tool_call>"),
        Just("<function="),
        Just("</function>"),
        Just("calc"),
        Just("<|python_tag|>"),
        Just("[TOOL_CALLS]"),
        Just("[ARGS]"),
        Just("```"),
        Just("json"),
        Just("\n"),
        Just(" "),
        Just("{"),
        Just("}"),
        Just("["),
        Just("]"),
        Just("\""),
        Just("\\"),
        Just(","),
        Just(";"),
        Just(CALC),
        Just("{\"name\":\"calc\","),
        Just("\"arguments\":{}}"),
        Just("<"),
        Just(">"),
        Just("é"),
        Just("text "),
        Just("<parameter=n>1</parameter>"),
        Just("`"),
        Just(":"),
    ];
    prop::collection::vec(pieces, 0..16).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn chunk_boundaries_do_not_change_the_result(text in call_like_text(), slice in 1usize..12) {
        prop_assert_eq!(read(&text, slice, names()), read(&text, usize::MAX, names()));
    }

    #[test]
    fn without_tools_every_text_stays_unchanged(text in call_like_text(), slice in 1usize..12) {
        prop_assert_eq!(read(&text, slice, Vec::new()), (text, Vec::new()));
    }

    #[test]
    fn a_text_without_calls_stays_unchanged(text in "[a-z{}\\[\\]\"`<>:, \n|_=]{0,60}", slice in 1usize..9) {
        prop_assert_eq!(read(&text, slice, names()), (text, Vec::new()));
    }
}
