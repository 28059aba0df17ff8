//! Entries, rotation, limits and masking of the audit log.

use super::*;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const KEY: &str = "configured-key-of-a-model";

fn entry(job: u128, n: u64) -> AuditEntry {
    AuditEntry {
        time_ms: n,
        user: UserId(1),
        job: Some(JobId::from_bits(job)),
        project: None,
        id_ref: format!("call_{n}"),
        tool: "tool".into(),
        arguments: json!({"n": n}),
        success: true,
        result: "{}".into(),
        duration_ms: 1,
        level: Some("strict".into()),
        skipped: None,
    }
}

fn log(dir: &Path, max_bytes: u64, files: u32) -> AuditLog {
    let secrets = [Secret::from(KEY.to_owned()), Secret::from("short".to_owned()), Secret::default()];
    AuditLog::open(dir, &AuditOptions { max_bytes, files }, &secrets).expect("opens")
}

fn times(log: &AuditLog, user: u32, job: u128, max: usize) -> Vec<u64> {
    let page = log.of_job(UserId(user), JobId::from_bits(job), 0, max).expect("readable");
    page.entries.iter().map(|entry| entry.time_ms).collect()
}

#[test]
fn p7_entries_are_read_back_for_their_owner_only() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = log(dir.path(), 1 << 20, 2);
    for n in 0..6 {
        log.record(&entry(u128::from(n % 2), n));
    }
    log.record(&AuditEntry { job: None, ..entry(0, 9) });
    assert_eq!(times(&log, 1, 0, 100), [0, 2, 4]);
    assert_eq!(times(&log, 1, 0, 2), [2, 4], "the newest");
    assert!(times(&log, 2, 0, 100).is_empty(), "P7: another user's");
    assert_eq!(log.of_job(UserId(1), JobId::from_bits(1), 0, 1).expect("readable").entries, [entry(1, 5)]);
    let path = dir.path().join("audit/audit.jsonl");
    assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(path).expect("text").lines().count(), 7);
}

#[test]
fn p8_files_are_rotated_by_size_and_the_oldest_is_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = log(dir.path(), 1_000, 2);
    for n in 0..100 {
        log.record(&entry(1, n));
    }
    let stored_times = times(&log, 1, 1, 1_000);
    assert!(stored_times.len() > 3 && stored_times.len() < 20, "{stored_times:?}");
    assert!(
        stored_times.is_sorted() && stored_times.last() == Some(&99),
        "oldest first, and none lost in between: {stored_times:?}"
    );
    assert_eq!(stored_times.first().map(|first| 100 - first), Some(stored_times.len() as u64));
    let mut names: Vec<_> = fs::read_dir(dir.path().join("audit"))
        .expect("a directory")
        .map(|entry| entry.expect("an entry"))
        .map(|entry| (entry.file_name().into_string().expect("text"), entry.metadata().expect("one").len()))
        .collect();
    names.sort();
    assert!(names.iter().all(|(_, bytes)| *bytes <= 1_000), "{names:?}");
    let names: Vec<_> = names.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["audit.1.jsonl", "audit.2.jsonl", "audit.jsonl"]);
}

#[test]
fn p8_a_page_reports_older_entries_and_does_not_read_older_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = log(dir.path(), 1_000, 9);
    for n in 0..12 {
        log.record(&entry(1, n));
    }
    let page = |since_ms, max| {
        let page = log.of_job(UserId(1), JobId::from_bits(1), since_ms, max).expect("readable");
        (page.entries.iter().map(|entry| entry.time_ms).collect::<Vec<_>>(), page.has_more)
    };
    assert_eq!(page(0, 100), ((0..12).collect(), false));
    assert_eq!(page(0, 5), ((7..12).collect(), true));
    // A file that starts before the job ends the search.
    let (since_last, has_more) = page(11, 100);
    assert!(since_last.len() < 8 && since_last.last() == Some(&11) && !has_more, "{since_last:?}");
    let path = dir.path().join("audit/audit.jsonl");
    let mut search = AuditSearch {
        user: UserId(1),
        job: JobId::from_bits(1),
        since_ms: 0,
        max: 100,
        found: VecDeque::new(),
        has_more: false,
    };
    let mut bytes = fs::metadata(&path).expect("a file").len() - 1;
    assert!(search.file(File::open(&path).expect("a file"), &mut bytes).expect("readable").is_break());
    let lines = fs::read_to_string(&path).expect("text").lines().count();
    assert!(search.has_more && bytes == 0, "there is more");
    assert_eq!(search.found.len(), lines - 1, "the incomplete first line is not read");
}

#[test]
fn an_incomplete_line_spoils_no_other() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("audit/audit.jsonl");
    log(dir.path(), 1 << 20, 1).record(&entry(1, 1));
    let whole = fs::read_to_string(&path).expect("text");
    fs::write(&path, format!("{whole}{}", &whole[..whole.len() / 2])).expect("writable");
    let log = log(dir.path(), 1 << 20, 1);
    log.record(&entry(1, 2));
    fs::write(dir.path().join("audit/audit.1.jsonl"), b"\xff\xfe no text\n{}\n").expect("writable");
    assert_eq!(times(&log, 1, 1, 10), [1, 2]);
}

#[test]
fn p8_long_texts_are_shortened() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = log(dir.path(), 1 << 20, 1);
    let umlauts = "ü".repeat(50_000);
    let many: Vec<String> = (0..1_000).map(|n| format!("text {n}")).collect();
    log.record(&AuditEntry { result: umlauts.clone(), arguments: json!({"code": umlauts}), ..entry(1, 1) });
    log.record(&AuditEntry { arguments: json!({"many": many}), ..entry(1, 2) });
    let found = log.of_job(UserId(1), JobId::from_bits(1), 0, 10).expect("readable").entries;
    let whole = found.first().expect("the first");
    assert_eq!(whole.result.chars().count(), TEXT_CHARS);
    assert_eq!(whole.arguments["code"].as_str().expect("a text").chars().count(), TEXT_CHARS);
    let second = found.last().expect("the second");
    assert_eq!(second.arguments.as_str().expect("one text").chars().count(), ARGUMENTS_CHARS);
}

#[test]
fn p9_no_line_contains_a_secret() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = log(dir.path(), 1 << 20, 1);
    let shapes = [
        "sk-abcdefgh12345678".to_owned(),
        format!("ghp_{}", "a1".repeat(18)),
        "xoxb-1234567890-abcdefgh".to_owned(),
        format!("nck_{}", "Z".repeat(43)),
        "whsec_c2VjcmV0c2VjcmV0".to_owned(),
        "AKIAIOSFODNN7EXAMPLE".to_owned(),
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl".to_owned(),
        KEY.to_owned(),
    ];
    for secret in &shapes {
        let inner = json!({"output": format!("it is {secret}, really")});
        let whole = AuditEntry {
            arguments: json!({"code": format!("print('{secret}')"), "nested": [{secret.clone(): 1}]}),
            result: json!({"success": true, "data": {"text": inner.to_string()}}).to_string(),
            tool: secret.clone(),
            ..entry(1, 1)
        };
        log.record(&whole);
    }
    let hidden = "hunter2-xyz";
    for arguments in [
        json!({"password": hidden}),
        json!({"headers": {"Authorization": format!("Basic {hidden}"), "Set-Cookie": [hidden]}}),
        json!({"api_key": hidden, "X-Api-Key": {"a": hidden}, "accessToken": hidden, "client-secret": hidden}),
        json!({"body": json!({"user": "u", "db_password": hidden}).to_string()}),
        json!({"body": json!({"inner": json!({"token": hidden}).to_string()}).to_string()}),
        json!({"url": format!("https://user:{hidden}@example.com/x")}),
        json!({"url": format!("https://example.com/x?a=1&token={hidden}&b=2")}),
        json!({"command": format!("curl -H 'Authorization: Bearer {hidden}' https://example.com")}),
        json!({"command": format!("curl -H \"Cookie: a={hidden}; b={hidden}\" https://example.com")}),
        json!({"command": format!("OPENAI_API_KEY={hidden} ./run")}),
        json!({"text": format!("-----BEGIN RSA PRIVATE KEY-----\n{hidden}\n-----END RSA PRIVATE KEY-----")}),
    ] {
        log.record(&AuditEntry { result: arguments.to_string(), arguments, ..entry(1, 2) });
    }
    let text = fs::read_to_string(dir.path().join("audit/audit.jsonl")).expect("text");
    for secret in shapes.iter().map(String::as_str).chain([hidden]) {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    assert!(text.contains("really") && text.contains("&b=2") && text.contains("./run"), "the rest stays");
}

#[test]
fn harmless_texts_stay_unchanged() {
    let mask = SecretMask::new([Secret::from("short".to_owned())].iter());
    for value in [
        json!({"max_tokens": 5, "token_count": 7, "author": "Ann", "text": "a short task-force, risk-averse people"}),
        json!({"code": "import secrets\nprint(len(tokens), 3 == x)\n"}),
        json!({"url": "https://example.com:8080/a@b?key=1", "list": "[1,  2]"}),
        json!({"password": null}),
    ] {
        assert_eq!(mask.value(&value), value);
    }
}
