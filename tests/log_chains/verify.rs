//! `nanoclaw verify` names the record that was changed, removed or moved.

use super::{LINKED, LOG, run};
use crate::store_contract::fixture::{Fixture, StorePlace};
use crate::support::store::{done, id, sealed};
use crate::support::{Ran, command};
use redb::ReadableTable;
use serde_json::Value;
use std::path::Path;

/// A change behind the back of the store.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tampering {
    /// Another text in the body.
    Change(u64, u32),
    Remove(u64, u32),
    /// Two bodies change places, with their links or without them.
    Swap((u64, u32), (u64, u32), bool),
    /// The record has no link any more.
    Unlink(u64, u32),
}

pub(super) fn tamper(place: &StorePlace, n: u128, tampering: Tampering) {
    match place {
        StorePlace::File(_) => tamper_with_file(&place.path(), n, tampering),
        StorePlace::Database(schema) => {
            let of = |seq: u64, sub: u32| format!("job = '{}' AND seq = {seq} AND sub = {sub}", id(n));
            let changed = schema.sql(&match tampering {
                Tampering::Change(seq, sub) => format!(
                    "UPDATE records SET body = replace(body::text, '\"', ' \"')::json WHERE {} RETURNING 1",
                    of(seq, sub)
                ),
                Tampering::Remove(seq, sub) => format!("DELETE FROM records WHERE {} RETURNING 1", of(seq, sub)),
                Tampering::Unlink(seq, sub) => {
                    format!("UPDATE records SET link = NULL WHERE {} RETURNING 1", of(seq, sub))
                }
                Tampering::Swap(one, other, with_links) => {
                    let (one, other) = (of(one.0, one.1), of(other.0, other.1));
                    let link = if with_links { ", link = other.link" } else { "" };
                    format!(
                        "UPDATE records SET body = other.body{link} FROM (SELECT body, link, \
                         row_number() OVER (ORDER BY seq DESC, sub DESC) AS nth FROM records WHERE {one} OR {other}) AS other, \
                         (SELECT seq AS s, sub AS b, row_number() OVER (ORDER BY seq, sub) AS nth FROM records \
                         WHERE {one} OR {other}) AS own WHERE own.nth = other.nth AND job = '{}' AND seq = s AND sub = b \
                         RETURNING 1",
                        id(n)
                    )
                }
            });
            assert!(!changed.is_empty(), "{tampering:?} changed nothing");
        }
    }
}

pub(super) fn log_key(n: u128, (seq, sub): (u64, u32)) -> Vec<u8> {
    [&id(n).to_bytes()[..], &seq.to_be_bytes(), &sub.to_be_bytes()].concat()
}

/// Changes rows of a closed file as somebody would who knows its format: checksums fit.
fn tamper_with_file(path: &Path, n: u128, tampering: Tampering) {
    let database = redb::Database::open(path).unwrap();
    let writing = database.begin_write().unwrap();
    {
        let mut log = writing.open_table(LOG).unwrap();
        let read = |log: &redb::Table<'_, &[u8], &[u8]>, place| {
            let stored = log.get(log_key(n, place).as_slice()).unwrap().expect("the record").value().to_vec();
            stored[..stored.len() - 4].to_vec()
        };
        let write = |log: &mut redb::Table<'_, &[u8], &[u8]>, place, value: &[u8]| {
            let key = log_key(n, place);
            log.insert(key.as_slice(), sealed("log", &key, value).as_slice()).unwrap();
        };
        match tampering {
            Tampering::Change(seq, sub) => {
                let value = read(&log, (seq, sub));
                let text = String::from_utf8(value[LINKED..].to_vec()).unwrap().replace('"', " \"");
                write(&mut log, (seq, sub), &[&value[..LINKED], text.as_bytes()].concat());
            }
            Tampering::Remove(seq, sub) => {
                assert!(log.remove(log_key(n, (seq, sub)).as_slice()).unwrap().is_some());
            }
            Tampering::Unlink(seq, sub) => {
                let value = read(&log, (seq, sub));
                write(&mut log, (seq, sub), &[&[1], &value[LINKED..]].concat());
            }
            Tampering::Swap(one, other, with_links) => {
                let (first, second) = (read(&log, one), read(&log, other));
                let at = if with_links { 0 } else { LINKED };
                write(&mut log, one, &[&first[..at], &second[at..]].concat());
                write(&mut log, other, &[&second[..at], &first[at..]].concat());
            }
        }
    }
    writing.commit().unwrap();
}

/// Runs `nanoclaw verify` on a closed store, or on a database.
pub(super) fn verify_command(place: &StorePlace, arguments: &[&str]) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let mut words = vec!["verify".to_owned()];
    match place {
        StorePlace::File(_) => {
            std::fs::copy(place.path(), dir.path().join("nanoclaw.redb")).unwrap();
            words.extend(["--data-dir".to_owned(), text(dir.path())]);
        }
        StorePlace::Database(schema) => {
            let config = dir.path().join("config.yml");
            let data = dir.path().display();
            std::fs::write(&config, format!("data_dir: {data}\nstore: {{url: \"{}\"}}\n", schema.url()))
                .unwrap();
            words.extend(["--config".to_owned(), text(&config)]);
        }
    }
    words.extend(arguments.iter().map(|word| (*word).to_owned()));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    command(&words).output().unwrap().into()
}

#[test]
fn verify_names_the_record_that_was_changed_removed_or_moved() {
    let cases = [
        (Tampering::Change(1, 0), "event 1 was changed"),
        (Tampering::Change(5, 2), "mark 2 after event 5 was changed"),
        (Tampering::Change(4, 0), "event 4 was changed, or the last mark after event 3 is missing"),
        (Tampering::Change(7, 0), "event 7 was changed, or the last mark after event 6 is missing"),
        (Tampering::Unlink(4, 0), "event 4 was changed"),
        (Tampering::Remove(1, 0), "event 1 is missing"),
        (Tampering::Remove(4, 0), "event 4 is missing"),
        (Tampering::Remove(5, 1), "mark 1 after event 5 is missing"),
        (Tampering::Remove(5, 2), "or the last mark after mark 1 after event 5 is missing"),
        (Tampering::Remove(7, 0), "the log up to event 6 does not have the head that the job names"),
        (Tampering::Swap((3, 0), (4, 0), false), "event 3 was moved: it stands as event 4"),
        (Tampering::Swap((3, 0), (6, 0), true), "event 3 was moved: it stands as event 6"),
        (Tampering::Swap((5, 1), (5, 2), true), "mark 1 after event 5 was moved"),
    ];
    let fixture = Fixture::new();
    for n in 0..=cases.len() as u128 {
        run(&*fixture.store, n + 1, done(id(n + 1), "answer"));
    }
    fixture.store.close();
    let intact = verify_command(&fixture.place, &["--all"]);
    assert_eq!((intact.code, intact.out.as_str()), (0, ""), "{}", intact.err);
    assert!(intact.err.contains("14 logs are intact, 0 are not, 0 are not chained"), "{}", intact.err);
    for (n, (tampering, _)) in (1..).zip(cases) {
        tamper(&fixture.place, n, tampering);
    }
    let found = verify_command(&fixture.place, &["--all"]);
    assert_eq!(found.code, 1, "{}", found.err);
    let lines: Vec<&str> = found.out.lines().collect();
    assert_eq!(lines.len(), cases.len(), "{}", found.out);
    for ((n, (tampering, says)), line) in (1..).zip(cases).zip(lines) {
        assert!(line.starts_with(&id(n).to_string()) && line.contains(says), "{tampering:?}: {line}");
        let one = verify_command(&fixture.place, &[&id(n).to_string()]);
        assert_eq!((one.code, one.out.trim()), (1, line), "{tampering:?}");
    }
    let whole = id(cases.len() as u128 + 1).to_string();
    let one = verify_command(&fixture.place, &[&whole, "--json"]);
    let answer: Value = serde_json::from_str(&one.out).unwrap();
    assert_eq!((one.code, answer["status"].as_str()), (0, Some("intact")), "{answer}");
    let head = answer["log_head"].as_str().unwrap();
    assert_eq!(verify_command(&fixture.place, &[&whole, "--head", head]).code, 0);
    let other = verify_command(&fixture.place, &[&whole, "--head", &"0".repeat(64)]);
    assert!(other.code == 1 && other.out.contains("another head"), "{}", other.out);
}

#[test]
fn verify_refuses_what_it_cannot_verify() {
    let fixture = Fixture::file();
    fixture.store.close();
    let unknown = verify_command(&fixture.place, &[&id(5).to_string()]);
    assert!(unknown.code == 1 && unknown.err.contains("there is no job job_"), "{}", unknown.err);
    for words in
        [&[][..], &["job_1"], &["--all", "--head", &"0".repeat(64)], &[&id(5).to_string(), "--head", "0"]]
    {
        assert_eq!(verify_command(&fixture.place, words).code, 2, "{words:?}");
    }
    let server = ["--all", "--server", "http://127.0.0.1:1"];
    let refused = verify_command(&fixture.place, &server);
    assert!(refused.code == 2 && refused.err.contains("server http://127.0.0.1:1"), "{}", refused.err);
    let empty = tempfile::tempdir().unwrap();
    let missing: Ran =
        command(&["verify", "--all", "--data-dir", empty.path().to_str().unwrap()]).output().unwrap().into();
    assert!(missing.code == 1 && missing.err.contains("there is no store"), "{}", missing.err);
}
