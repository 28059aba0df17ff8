//! Retention, files and projects on `PostgreSQL` where several nodes or SQL make a difference.

use super::fixture::Fixture;
use crate::support::store::{ANN, delta, done, id, job};
use nanoclaw::domain::event::{EngineMark, Event};
use nanoclaw::domain::id::{FileId, ProjectId};
use nanoclaw::domain::image::{Image, ImageType};
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::log_chain::LogSigningKey;
use nanoclaw::domain::message::Message;
use nanoclaw::domain::project::{Project, ProjectName};
use nanoclaw::domain::stored_file::{ContentDigest, FilePurpose, StoredFile};
use nanoclaw::ports::{Clock, LogChains, NodeStore, ProjectError, Projects, Store, StoredFiles, Urgency};
use nanoclaw::store::RetentionAge;
use nanoclaw::store::options::{RetentionOptions, StoreOptions};
use std::sync::Arc;

const HOUR: u64 = 3_600_000;

fn options(deltas: u64, events: Option<u64>) -> StoreOptions {
    let age = |ms: Option<u64>| ms.map_or(RetentionAge::Forever, RetentionAge::For);
    StoreOptions {
        retention: RetentionOptions {
            deltas: RetentionAge::For(deltas),
            events: age(events),
            ..Default::default()
        },
        ..Default::default()
    }
}

#[test]
fn an_unreadable_log_stays_whole_while_others_are_folded_and_cut() {
    let Some(fixture) = Fixture::with_options(&Limits::default(), &options(HOUR, Some(3 * HOUR))) else {
        return;
    };
    fixture.submit([job(1, ANN), job(2, ANN)]);
    for _n in [1, 2] {
        let lease = fixture.claim();
        for record in [
            delta(0, 0, "one "),
            delta(0, 4, "two\0"),
            delta(0, 8, "three"),
            delta(1, 0, "bad"),
            Event::StepDiscarded { index: 1 }.into(),
            delta(2, 0, "again"),
        ] {
            fixture.store.append(lease.fence(), vec![record], Urgency::Now).wait().unwrap();
        }
        fixture.store.finish(lease.fence(), vec![], done(lease.job.id, "answer")).wait().unwrap();
    }
    fixture.sql(&format!("UPDATE records SET body = '\"garbage\"' WHERE job = '{}' AND seq = 3", id(2)));
    fixture.clock.advance(30 * 60_000);
    fixture.store.run_retention().unwrap();
    assert_eq!(fixture.sql("SELECT string_agg(retention::text, ',' ORDER BY id) FROM jobs"), "0,0");
    fixture.clock.advance(HOUR);
    fixture.store.run_retention().unwrap();
    assert_eq!(fixture.sql("SELECT string_agg(retention::text, ',' ORDER BY id) FROM jobs"), "1,3");
    let seqs = |n| {
        fixture.sql(&format!(
            "SELECT string_agg(seq || '.' || sub, ',' ORDER BY seq, sub) FROM records WHERE job = '{}'",
            id(n)
        ))
    };
    assert_eq!(seqs(1), "1.0,2.0,5.0,7.0,8.0,9.0");
    let body = fixture.sql(&format!("SELECT body FROM records WHERE job = '{}' AND seq = 5", id(1)));
    assert!(body.contains("one two\\u0000three"), "{body}");
    fixture.clock.advance(2 * HOUR);
    fixture.store.run_retention().unwrap();
    assert_eq!(fixture.sql("SELECT string_agg(retention::text, ',' ORDER BY id) FROM jobs"), "2,3");
    assert_eq!(seqs(1), "9.0");
    assert_eq!(seqs(2), "1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0");
}

#[test]
fn stored_bytes_follow_folded_and_cut_logs() {
    let Some(fixture) = Fixture::with_options(&Limits::default(), &options(HOUR, Some(3 * HOUR))) else {
        return;
    };
    fixture.submit([job(1, ANN)]);
    let lease = fixture.claim();
    for record in [delta(0, 0, "one "), delta(0, 4, "two "), delta(0, 8, "three")] {
        fixture.store.append(lease.fence(), vec![record], Urgency::Now).wait().unwrap();
    }
    fixture.store.finish(lease.fence(), vec![], done(lease.job.id, "answer")).wait().unwrap();
    let bytes = || fixture.sql("SELECT bytes FROM stored_bytes").parse::<i64>().unwrap();
    let truth = || fixture.sql("SELECT sum(octet_length(body::text)) FROM records").parse::<i64>().unwrap();
    let others = bytes() - truth();
    fixture.clock.advance(2 * HOUR);
    fixture.store.run_retention().unwrap();
    assert_eq!(fixture.sql("SELECT count(*) FROM records"), "4");
    assert_eq!(bytes() - truth(), others);
    fixture.clock.advance(2 * HOUR);
    fixture.store.run_retention().unwrap();
    assert_eq!(fixture.sql("SELECT count(*) FROM records"), "1");
    assert_eq!(bytes() - truth(), others);
}

#[test]
fn one_node_a_minute_folds_all_logs_in_several_transactions() {
    let Some(fixture) = Fixture::with_options(&Limits::default(), &options(HOUR, None)) else { return };
    let other = fixture.reopen(&options(HOUR, None));
    fixture.store.submit((1..=350).map(|n| job(n, ANN)).collect()).wait().unwrap();
    for lease in fixture.store.claim(350).wait().unwrap() {
        let part = |n: u64| delta(0, n * 30_000, &"x".repeat(30_000));
        let records =
            (0..4).flat_map(|n| [part(n), EngineMark::ToolStarted { id_ref: "c".into() }.into()]).collect();
        fixture.store.finish(lease.fence(), records, done(lease.job.id, "answer")).wait().unwrap();
    }
    fixture.clock.advance(2 * HOUR);
    let stores = [Arc::clone(&fixture.store), other];
    std::thread::scope(|scope| {
        for store in &stores {
            scope.spawn(|| store.run_retention().unwrap());
        }
    });
    assert_eq!(fixture.sql("SELECT count(*) FROM jobs WHERE retention = 1"), "350");
    assert_eq!(fixture.sql("SELECT count(*) FROM records WHERE sub > 0"), "0");
    let turn = fixture.sql("SELECT value FROM settings WHERE key = 'retention'");
    fixture.clock.advance(30_000);
    for store in &stores {
        store.run_retention().unwrap();
    }
    assert_eq!(fixture.sql("SELECT value FROM settings WHERE key = 'retention'"), turn);
    fixture.clock.advance(30_000);
    for store in &stores {
        store.run_retention().unwrap();
    }
    assert_ne!(fixture.sql("SELECT value FROM settings WHERE key = 'retention'"), turn);
}

#[test]
fn a_jump_of_the_clock_stops_retention_even_after_a_restart() {
    let Some(fixture) = Fixture::with_options(&Limits::default(), &options(HOUR, None)) else { return };
    fixture.submit([job(1, ANN)]);
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![], done(lease.job.id, "answer")).wait().unwrap();
    assert!(fixture.store.is_clock_trusted());
    fixture.clock.jump(5 * HOUR);
    fixture.store.run_retention().unwrap();
    assert!(!fixture.store.is_clock_trusted());
    assert_eq!(fixture.sql("SELECT retention FROM jobs"), "0");
    fixture.store.close();
    let again = fixture.reopen(&options(HOUR, None));
    assert!(!again.is_clock_trusted());
    fixture.clock.advance(25 * HOUR);
    again.run_retention().unwrap();
    assert!(again.is_clock_trusted());
    assert_eq!(fixture.sql("SELECT retention FROM jobs"), "1");
}

#[test]
fn the_thread_removes_expired_idempotency_keys_by_itself() {
    let Some(fixture) = Fixture::with_options(&Limits::default(), &options(HOUR, None)) else { return };
    let now = fixture.clock.now_ms();
    fixture.sql(&format!(
        "INSERT INTO idempotency VALUES (1, 'a', 'b', 'c', {}), (1, 'b', 'b', 'c', {})",
        now + 10,
        now + 10 * HOUR
    ));
    fixture.clock.advance(6_000);
    for _ in 0..50 {
        if fixture.sql("SELECT count(*) FROM idempotency") == "1" {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("no sweep");
}

fn look(number: u8) -> Message {
    let image = Image {
        media_type: ImageType::Png,
        content: ContentDigest::from_bytes([number; 32]),
        bytes: 1_000_000,
        name: None,
        detail: None,
        text_offset_bytes: None,
        data: None,
    };
    Message::User { content: "look".to_owned(), attachments: Vec::new(), images: vec![image.clone(), image] }
}

#[test]
fn an_image_of_several_jobs_counts_for_each() {
    let Some(fixture) = Fixture::new() else { return };
    let is_held = |n: u8| {
        fixture.store.unused_contents(vec![ContentDigest::from_bytes([n; 32])]).wait().unwrap().is_empty()
    };
    for n in [1, 2] {
        let mut new = job(n, ANN);
        new.spec.input = vec![look(1), look(u8::try_from(n).unwrap())];
        fixture.submit([new]);
    }
    assert!(is_held(1) && is_held(2) && !is_held(3));
    assert_eq!(fixture.sql("SELECT image_bytes FROM file_totals"), "3000000");
}

#[test]
fn p8_parallel_writes_of_two_nodes_keep_the_limits_of_a_user() {
    let Some(fixture) = Fixture::with(&Limits { user_files: 20, ..Limits::default() }) else { return };
    let other = fixture.reopen(&StoreOptions::default());
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let store = &fixture.store;
            scope.spawn(move || {
                for n in 0..10u8 {
                    let file = StoredFile {
                        id: FileId::from_bits(u128::from(thread) * 100 + u128::from(n)),
                        user: ANN,
                        name: "a\0".into(),
                        purpose: FilePurpose::Batch,
                        bytes: 10,
                        content: ContentDigest::from_bytes([n; 32]),
                        created_at_ms: 1,
                        expires_at_ms: None,
                    };
                    drop(store.add_file(file).wait());
                }
            });
        }
    });
    assert_eq!(fixture.sql("SELECT count(*) FROM files"), "20");
    assert_eq!(fixture.sql("SELECT files || ' ' || bytes FROM file_totals"), "20 200");
    let stores = [Arc::clone(&fixture.store), other];
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let store = &stores[thread % 2];
            scope.spawn(move || {
                for n in 0..10u128 {
                    let project = Project {
                        id: ProjectId::from_bits(thread as u128 * 100 + n),
                        user: ANN,
                        name: ProjectName::try_from(format!("p{n}")).unwrap(),
                        directory: "same".into(),
                        description: "\0".into(),
                        created_at_ms: 1,
                        updated_at_ms: 1,
                    };
                    let created = store.create_project(project, 7).wait();
                    assert!(
                        matches!(
                            created,
                            Ok(_) | Err(ProjectError::NameTaken | ProjectError::ProjectsFull { .. })
                        ),
                        "{created:?}"
                    );
                }
            });
        }
    });
    assert_eq!(fixture.sql("SELECT count(*), count(DISTINCT directory) FROM projects"), "7|7");
}

#[test]
fn jobs_that_end_at_once_are_in_one_checkpoint() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.store.set_log_key(LogSigningKey::from_seed([9; 32]).unwrap());
    let end = |n| {
        fixture.submit([job(n, ANN)]);
        fixture.store.finish(fixture.claim().fence(), vec![], done(id(n), "answer")).wait().unwrap();
    };
    end(1);
    // Copies that end together: 10,010 jobs, where a checkpoint has 10,000.
    fixture.sql(
        "CREATE TEMPORARY TABLE copies AS SELECT jobs.*, n FROM jobs, generate_series(10001, 20009) AS n; \
         UPDATE copies SET id = substr(id, 1, length(id) - 5) || n, accept = accept + n; \
         ALTER TABLE copies DROP COLUMN n; INSERT INTO jobs SELECT * FROM copies",
    );
    fixture.clock.advance(2 * 60_000);
    end(2);
    fixture.clock.advance(2 * 60_000);
    for _ in 0..3 {
        fixture.store.make_checkpoint().wait().unwrap();
    }
    let made = fixture.store.checkpoints(0, 10).unwrap();
    assert_eq!(made.iter().map(|stored| stored.checkpoint.jobs).collect::<Vec<_>>(), [10_010, 1]);
}
