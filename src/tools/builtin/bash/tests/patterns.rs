//! The operator's own patterns: what they deny, what they exempt, and bad ones.

use super::guard::{rules, verdict};
use crate::tools::builtin::bash::{BashOptions, BashRules};

/// Under an allow list.
const LISTED: &[(&str, bool)] = &[
    ("git status", true),
    ("git log --format=%H", true),
    ("sudo systemctl restart x", true),
    ("ls", true),
    ("pwd", true),
    ("sleep 1 &", true),
    ("git status && ls; pwd | ls || pwd", true),
    ("ls # no matter what", true),
    ("", true),
    ("for x in a; do ls; done", true),
    ("echo $(ls)", true),
    ("echo $(cat x)", false),
    ("git statusx", false),
    ("xgit status", false),
    ("lsx", false),
    ("pwd x", false),
    ("GIT status", false),
    ("git status && cat x", false),
    ("git status; cat x", false),
    ("git status | cat", false),
    ("ls & cat x", false),
    ("ls\ncat x", false),
    ("sudo systemctl restart y", false),
    ("X=1 ls", false),
    ("ls > x", false),
    ("git push", false),
    ("(cat x)", false),
    ("f() { cat x; }", false),
    ("ls '#' ; cat x", false),
    ("git log '#'; cat x", false),
    ("git log <<EOF\nx\nEOF\ncat x", false),
];

#[test]
fn deny_patterns_extend_the_built_in_rules() {
    let rules = rules(&[r"\bgit\s+push\b", "^curl"], &[]);
    for (command, is_fine) in [
        ("git push origin", false),
        ("ls && GIT  PUSH", false),
        ("git 'push'", false),
        ("ls\ngit push", false),
        ("$(git push)", false),
        ("curl x", false),
        ("echo curl", true),
        ("git pull", true),
        ("sudo ls", false),
    ] {
        assert_eq!(verdict(command, &rules).is_ok(), is_fine, "{command}");
    }
    let reported = verdict("ls; git push -f", &rules).expect_err("denied");
    assert!(
        reported.contains("`git push -f`")
            && reported.contains(r"\bgit\s+push\b")
            && reported.contains("bash.deny_patterns"),
        "{reported}"
    );
}

#[test]
fn allow_patterns_permit_whole_segments_and_refuse_all_others() {
    let rules = rules(
        &["status"],
        &["git (status|log)( .*)?", "sudo systemctl restart x", "ls|pwd", r"echo [\w$()]+", "sleep 1"],
    );
    for (command, is_fine) in LISTED.iter().copied() {
        assert_eq!(verdict(command, &rules).is_ok(), is_fine, "{command}");
    }
    let reported = verdict("ls && cat x", &rules).expect_err("not on it");
    assert!(
        reported.contains("`cat x`")
            && reported.contains("not in the allow list")
            && reported.contains("'ls|pwd'"),
        "{reported}"
    );
}

#[test]
fn invalid_bash_patterns_and_variables_are_reported() {
    let options = BashOptions {
        deny_patterns: vec!["ok".into(), "(".into()],
        allow_patterns: vec!["a)|(b".into()],
        allowed_env: vec!["LANG".into(), "$X".into(), "A=B".into(), String::new()],
    };
    let faults: Vec<String> = options.faults().iter().map(ToString::to_string).collect();
    assert_eq!(faults.len(), 5, "{faults:?}");
    assert_eq!(faults[0], "bash.deny_patterns[1]: '(' must be a regular expression: unclosed group");
    assert!(faults[1].starts_with("bash.allow_patterns[0]: 'a)|(b' must be"), "{faults:?}");
    assert!(faults[2].starts_with("bash.allowed_env[1]: '$X' must be the name"), "{faults:?}");
    assert_eq!(
        BashRules::new(&options, |_| None).err().map(|fault| fault.key).as_deref(),
        Some("deny_patterns[1]")
    );
}
