//! Edits of texts: what matches, what stays, and what is suggested where nothing matches.

use super::*;
use crate::domain::tool::ToolChoice;
use crate::tools::testing::{context, deps};

fn edit<'a>(old: &'a str, new: &'a str) -> TextEdit<'a> {
    TextEdit { old, new, all: false, max_bytes: 1 << 20 }
}

fn all<'a>(old: &'a str, new: &'a str) -> TextEdit<'a> {
    TextEdit { all: true, ..edit(old, new) }
}

fn done(raw: &str, edit: TextEdit<'_>) -> String {
    splice(raw, edit).unwrap_or_else(|error| panic!("{raw:?}: {error:?}")).text
}

#[test]
fn an_edit_needs_exactly_one_match_or_replaces_all() {
    assert_eq!(done("a\nb\nc\n", edit("b", "x\ny")), "a\nx\ny\nc\n");
    assert_eq!(splice("a\nb\nb b\n", edit("b", "x")), Err(EditError::Ambiguous(3, vec![2, 3, 3])));
    assert_eq!(splice("a", edit("b", "x")), Err(EditError::NotFound));
    assert_eq!(
        splice("aaa", edit("aa", "x")),
        Err(EditError::Ambiguous(2, vec![1, 1])),
        "overlapping places are two"
    );
    assert_eq!(splice("éé\néé é", edit("é\né", "x")).map(|edited| edited.text), Ok("éxé é".into()));
    let edited = splice("1\n2\n1\n1 1\n", all("1", "one\nmore")).expect("an edit");
    assert_eq!(edited.text, "one\nmore\n2\none\nmore\none\nmore one\nmore\n");
    assert_eq!((edited.replacements, edited.lines), (4, vec![1, 4, 6, 7]));
}

#[test]
fn an_edit_keeps_line_endings() {
    for (raw, old, new, expected) in [
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\nc\r\n"),
        ("a\r\nb\r\n", "b\n", "x\n", "a\r\nx\r\n"),
        ("a\r\nb\r\n", "b", "x", "a\r\nx\r\n"),
        ("a\r\nb\r\nc\nd", "b\nc\nd", "x\ny", "a\r\nx\r\ny"),
        ("a\nb\nc\r\n", "b", "x\ny", "a\nx\ny\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "\nb\n", "\nx\n", "a\r\nx\r\nc\r\n"),
        ("a\rb", "a\rb", "x", "x"),
    ] {
        assert_eq!(done(raw, edit(old, new)), expected, "{raw:?} {old:?}");
    }
    assert_eq!(splice("a\r\nb\r\n", edit("a\r\nb", "a\nb")), Err(EditError::Unchanged));
}

#[test]
fn removed_lines_lose_their_line_ending_and_spaces_and_quotes_stay() {
    assert_eq!(done("a\nb\nc\n", edit("b", "")), "a\nc\n");
    assert_eq!(done("a\r\nb\r\nc\r\n", edit("b", "")), "a\r\nc\r\n");
    assert_eq!(done("b\nb\nc", all("b", "")), "c");
    assert_eq!(done("a\nb", edit("b", "")), "a\n");
    assert_eq!(done("a b c\n", edit(" b", "")), "a c\n", "a part of a line leaves the line");
    assert_eq!(done("a\nb\nc\n", edit("b\n", "")), "a\nc\n");
    let text = "two spaces  \n“quoted” and ‘so’\n\ttab\n";
    assert_eq!(done(text, edit("and", "or")), text.replace("and", "or"));
    assert_eq!(done(text, edit("spaces  \n“quoted", "spaces  \n“cited")), text.replace("quoted", "cited"));
}

#[test]
fn p8_an_edit_over_the_size_limit_is_refused_before_it_is_made() {
    let (raw, new) = ("a".repeat(1 << 20), "b".repeat(1 << 20));
    let error = splice(&raw, TextEdit { max_bytes: 1 << 21, ..all("a", &new) });
    assert_eq!(error, Err(EditError::TooLarge(1 << 40)));
    assert!(splice("aa", TextEdit { max_bytes: 4, ..all("a", "bb") }).is_ok());
}

#[test]
fn a_byte_order_mark_is_kept_and_never_matched() {
    let attempt = |old: &str, new: &str| EditAttempt::at(Some("\u{feff}a\nb".into()), edit(old, new)).bytes();
    assert_eq!(attempt("a\nb", "x"), Some("\u{feff}x".into()));
    assert_eq!(attempt("\u{feff}a", "x"), None, "nobody sees it, nobody replaces it");
    assert!(matches!(EditAttempt::at(Some(b"\xFF\xFEa\0".to_vec()), edit("a", "b")), EditAttempt::NotText));
}

fn told_of(raw: &str, old: &str) -> (String, Value) {
    match text_not_found("f", edit(old, "x"), raw) {
        ToolError::Failed { message, data } => (message, data["nearest"].clone()),
        other @ ToolError::Invalid(_) => panic!("{other:?}"),
    }
}

#[test]
fn without_a_match_the_nearest_text_is_reported_with_its_lines() {
    let raw = "fn main() {\n    let total = add(1, 2);\n    println!(\"{total}\");\n}\n\nfn add(a: i32, b: i32) -> i32 {\n    a + b\n}\n";
    let (message, near) = told_of(raw, "    let total = add(1, 3);\n    print!(\"{total}\");");
    assert!(message.contains("The nearest text is at lines 2 to 3"), "{message}");
    assert_eq!(near["text"], "    let total = add(1, 2);\n    println!(\"{total}\");");
    for (old, only) in [
        ("\tlet total = add(1, 2);", "only in white space"),
        ("    println!(“{total}”);", "only in quotes"),
        ("FN ADD(A: i32, b: i32)", "upper and lower case"),
    ] {
        let (message, near) = told_of(raw, old);
        assert!(message.contains(only), "{old}: {message}");
        assert!(near["start_line"].as_u64().is_some(), "{near}");
    }
    let (message, near) = told_of(raw, "SELECT * FROM users WHERE id = 5");
    assert!(message.contains("nor anything like it") && near.is_null(), "{message}");
    let (message, _) = told_of("", "x");
    assert!(message.contains("nor anything like it"), "{message}");
    // A line end in the middle is a line end, whichever it is.
    let (message, near) =
        told_of("a long first line\r\nanother line here\r\n", "a long first line\nanother line hero");
    assert!(
        message.contains("lines 1 to 2") && near["text"] == "a long first line\nanother line here",
        "{message}"
    );
}

#[test]
fn p8_the_search_for_the_nearest_text_is_bounded() {
    let raw = "let x = compute(the, same, thing);\n".repeat(60_000);
    let old = "let y = compute(the, same, thing);\n".repeat(30_000);
    let (message, near) = told_of(&raw, &old);
    assert!(message.len() < 500 && near["text"].as_str().expect("a text").len() < 5_000, "{message}");
}

#[test]
fn edited_lines_are_shown_with_line_numbers() {
    let raw: String = (1..=50).map(|n| format!("line {n}\n")).collect::<Vec<_>>().concat();
    let edited = splice(&raw, edit("line 20\n", "new\n")).expect("an edit");
    let shown = snippet(&edited);
    assert!(shown.starts_with("17| line 17\n") && shown.contains("\n20| new\n21| line 21\n"), "{shown}");
    let programs = FilePrograms::of(deps().code.as_ref(), &context(ToolChoice::All(true)));
    let message =
        not_edited("f", edit("x", "y"), (EditError::Ambiguous(70, (1..=50).collect()), ""), programs)
            .to_string();
    assert!(
        message.contains("stands 70 times in 'f', at lines 1, 2, 3") && message.contains("50 …"),
        "{message}"
    );
}
