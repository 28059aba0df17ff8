//! Properties of any line: the guard ends, does not panic, and refuses a denied command in any company.

use super::guard::{rules, verdict};
use proptest::prelude::*;

#[test]
fn long_and_deeply_nested_lines_are_judged() {
    for unit in [
        "(",
        "$(",
        "${",
        "`",
        "{ ",
        "((",
        "$((",
        "\"$(",
        "case x in a) ",
        "<(",
        "f(){ ",
        "cat <<E\n$(",
        "find -exec ",
        "eval ",
        "sh -c ",
        "a=(",
        "[[ ",
        "\\",
    ] {
        let line = unit.repeat(20_000);
        let _judged = verdict(&line, &rules(&[], &[]));
        let reported = verdict(&format!("sudo ls; {line}"), &rules(&[], &[])).expect_err(unit);
        assert!(reported.len() < 1_000, "{unit}");
    }
}

/// Lines that must not be refused.
fn harmless() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "ls",
        "ls -la",
        "echo hi",
        "git status",
        "echo \"a; b\"",
        "X=1",
        "cat x 2>/dev/null",
        "(ls)",
        "{ ls; }",
        "if true; then ls; fi",
        "echo $(date)",
        "echo 'it is'",
        "[[ a ]]",
        "case x in a) ls;; esac",
        "f() { ls; }",
        "arr=(a b)",
        "echo $((1+2))",
        "true # fine\n:",
        "cat <<EOF\nit's\nEOF\n:",
        "for x in a; do ls; done",
        "make -j2 > log 2>&1",
    ])
}

fn denied() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "rm -rf /",
        "sudo ls",
        "mkfs.ext4 x",
        "dd of=/dev/sda",
        "shutdown now",
        "b(){ b|b& };b",
        "echo x > /dev/sda",
        "sh -c 'sudo ls'",
        "rm -r -f ~",
        "echo $(sudo ls)",
        "nohup reboot",
        "format C:",
        "rm -f /etc/passwd",
        "(sudo ls)",
        "eval reboot",
    ])
}

fn operator() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "&&", "||", ";", "|", "&", "\n", " && ", " || ", " ; ", " | ", " & ", " |& ", "\n\n", " &&\n",
    ])
}

proptest! {
    #[test]
    fn no_text_makes_the_bash_guard_panic(text in any::<String>()) {
        let _judged = verdict(&text, &rules(&[], &[]));
    }

    #[test]
    fn no_shell_like_text_makes_the_bash_guard_panic(text in "[ \n\t'\"\\\\`$(){}<>|&;#=~*a-c/!\\[\\]-]{0,80}") {
        let _judged = verdict(&text, &rules(&["a"], &[]));
        let _listed = verdict(&text, &rules(&[], &["a.*"]));
    }

    #[test]
    fn a_quoted_argument_of_echo_is_never_denied(word in denied(), text in "[a-z;&|<>$()`{}\n/ *~-]{0,30}") {
        prop_assert_eq!(verdict(&format!("echo '{word}'"), &rules(&[], &[])), Ok(()));
        prop_assert_eq!(verdict(&format!("echo '{text}{word}{text}'"), &rules(&[], &[])), Ok(()));
    }

    #[test]
    fn a_denied_segment_is_denied_among_any_harmless_segments(
        before in prop::collection::vec((harmless(), operator()), 0..4),
        segment in denied(),
        after in prop::collection::vec((operator(), harmless()), 0..4),
    ) {
        let head: String = before.into_iter().flat_map(<[&str; 2]>::from).collect();
        let tail: String = after.into_iter().flat_map(<[&str; 2]>::from).collect();
        let line = format!("{head}{segment}{tail}");
        prop_assert!(verdict(&line, &rules(&[], &[])).is_err(), "{}", line);
    }

    #[test]
    fn lines_of_harmless_segments_are_allowed(lines in prop::collection::vec((harmless(), operator()), 0..5)) {
        let line: String = lines.into_iter().flat_map(<[&str; 2]>::from).collect();
        prop_assert_eq!(verdict(&line, &rules(&[], &[])), Ok(()));
    }
}
