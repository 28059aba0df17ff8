//! Reasoning is found however the text is cut, and a tag that is no tag stays text.

use super::*;
use proptest::prelude::*;

/// Reasoning and text of an answer that arrives in slices of so many characters.
fn read(text: &str, slice: usize) -> (String, String) {
    let mut tags = ThinkTags::default();
    let (mut thinking, mut answer) = (String::new(), String::new());
    let chars: Vec<char> = text.chars().collect();
    let mut pieces = Vec::new();
    for part in chars.chunks(slice.max(1)) {
        pieces.extend(tags.push(&part.iter().collect::<String>()));
    }
    pieces.extend(tags.finish());
    for piece in pieces {
        match piece {
            TaggedPiece::Thinking(text) => thinking.push_str(&text),
            TaggedPiece::Text(text) => answer.push_str(&text),
            TaggedPiece::TextWasThinking => thinking.push_str(&std::mem::take(&mut answer)),
        }
    }
    (thinking, answer)
}

#[test]
fn reasoning_at_the_start_is_separated() {
    for (text, thinking, answer) in [
        ("<think>hm</think>yes", "hm", "yes"),
        ("<think>\nhm, so\n</think>\n\nyes\n", "hm, so", "yes\n"),
        ("\n <think>a < b</thin> c</think> yes", "a < b</thin> c", "yes"),
        ("<think>\n\n</think>\n\nyes", "", "yes"),
        ("<think>one</think>\n<think>two</think>yes", "onetwo", "yes"),
        ("<think>never closed", "never closed", ""),
        ("<think>cut </thi", "cut </thi", ""),
        ("<think>a <<</think>b", "a <<", "b"),
        // The template has given the opening tag.
        ("hm, so\n</think>\n\nyes", "hm, so\n", "yes"),
        ("hm, so</think>yes", "hm, so", "yes"),
        ("hm so </think>\nyes", "hm so ", "yes"),
        ("</think>\n\nyes", "", "yes"),
        ("hm\n</think>", "hm\n", ""),
        (
            "use `x` and ```y``` here\n```\ncode\n```\nso\n</think>\nyes",
            "use `x` and ```y``` here\n```\ncode\n```\nso\n",
            "yes",
        ),
    ] {
        for slice in [1, 2, 3, usize::MAX] {
            assert_eq!(read(text, slice), (thinking.to_owned(), answer.to_owned()), "{text:?} by {slice}");
        }
    }
}

#[test]
fn a_tag_that_is_mentioned_stays_text() {
    for text in [
        "plain",
        "",
        " \n",
        "<thinking>no</thinking>",
        "a < b and <b>bold</b>",
        "Sure. <think>not at the start</think> yes",
        "Models close it with `</think>` as a rule.",
        "They write \"</think>\" there.",
        "The tag </think> closes it, and </think> again.",
        "Look:\n```xml\n<x>\n</think>\n```\nThat is it.",
        "```\n</think>",
        "`<think>` opens\n</think>\n",
    ] {
        for slice in [1, 2, 3, usize::MAX] {
            assert_eq!(read(text, slice), (String::new(), text.to_owned()), "{text:?} by {slice}");
        }
    }
    let answer = "<think>hm</think>It is `</think>`.\n</think>\n<think>x</think>";
    assert_eq!(
        read(answer, 1),
        ("hm".to_owned(), "It is `</think>`.\n</think>\n<think>x</think>".to_owned())
    );
}

#[test]
fn text_streams_without_delay() {
    let mut tags = ThinkTags::default();
    assert_eq!(tags.push("Hello "), [TaggedPiece::Text("Hello ".into())]);
    assert_eq!(tags.push("world <"), [TaggedPiece::Text("world ".into())]);
    assert_eq!(tags.push("b"), [TaggedPiece::Text("<b".into())]);
    let mut tags = ThinkTags::default();
    assert_eq!(tags.push("<think>hm"), [TaggedPiece::Thinking("hm".into())]);
    assert_eq!(tags.push(", so </th"), [TaggedPiece::Thinking(", so".into())]);
    assert_eq!(tags.push("ink>\nyes"), [TaggedPiece::Text("yes".into())]);
}

#[test]
fn a_provider_with_a_field_for_reasoning_has_no_bare_closing_tag() {
    let mut tags = ThinkTags::default();
    tags.note_reasoning();
    let mut pieces = tags.push("text\n</think>\nmore");
    pieces.extend(tags.finish());
    assert_eq!(pieces, [TaggedPiece::Text("text\n</think>\nmore".into())]);
}

proptest! {
    #[test]
    fn slices_do_not_matter(text in "(<think>|</think>|[a-c<>`/\\n \"]{0,6}){0,8}", slice in 1usize..7) {
        prop_assert_eq!(read(&text, slice), read(&text, usize::MAX));
    }

    #[test]
    fn text_without_a_tag_is_unchanged(text in "[a-z<>/`\\n k]{0,40}") {
        prop_assume!(!text.contains("think>"));
        prop_assert_eq!(read(&text, 3), (String::new(), text));
    }
}
