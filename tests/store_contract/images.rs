//! What names images in the store: jobs, lines of batches, schedules and added items. An image is free when
//! the last of them is gone, whatever crash comes between.

use super::fixture::Fixture;
use super::schedules::{every, order, schedule};
use crate::support::store::{ANN, BOB, chat, done, id, job, name};
use nanoclaw::domain::conversation::StoredItems;
use nanoclaw::domain::id::{BatchId, UserId};
use nanoclaw::domain::image::{Image, ImageType};
use nanoclaw::domain::message::Message;
use nanoclaw::domain::stored_file::ContentDigest;
use nanoclaw::ports::{Clock, EntryQuery, ItemsEdit, NewBatch, NewItems, NewLine};
use serde_json::json;

const BATCH: BatchId = BatchId::from_bits(7);
const MEGABYTE: u64 = 1_000_000;

fn digest(number: u8) -> ContentDigest {
    ContentDigest::from_bytes([number; 32])
}

/// A message with this image of a megabyte.
fn look(number: u8) -> Message {
    let image = Image {
        media_type: ImageType::Png,
        content: digest(number),
        bytes: MEGABYTE,
        name: None,
        detail: None,
        text_offset_bytes: None,
        data: None,
    };
    Message::User { content: "look".to_owned(), attachments: Vec::new(), images: vec![image] }
}

/// Whether something names the image.
fn is_held(fixture: &Fixture, number: u8) -> bool {
    fixture.store.unused_contents(vec![digest(number)]).wait().unwrap().is_empty()
}

/// Lets the sweeper work.
fn sweep(fixture: &Fixture) {
    for _ in 0..3 {
        fixture.clock.advance(60_000);
        fixture.store.run_retention().unwrap();
    }
}

fn fill(fixture: &Fixture, user: UserId) {
    let line = |number: u8| {
        let mut spec = job(1, user).spec;
        spec.input = vec![look(number)];
        NewLine { custom_id: number.to_string(), spec }
    };
    fixture.store.fill((user, BATCH), 0, vec![line(1), line(2)]).wait().unwrap();
}

fn accept(fixture: &Fixture) {
    let batch = NewBatch {
        id: BATCH,
        user: ANN,
        created_at_ms: 1_000_000,
        lines: 2,
        concurrency: 1,
        webhook_url: None,
        expires_at_ms: None,
        source: None,
    };
    fixture.store.accept(batch, None).wait().unwrap();
}

#[test]
fn p1_a_line_holds_its_image_until_its_job_does() {
    let mut fixture = Fixture::new();
    let before = fixture.store.stored_bytes(ANN).unwrap();
    fill(&fixture, ANN);
    assert!(is_held(&fixture, 1) && is_held(&fixture, 2), "before the batch is accepted");
    assert!(fixture.store.stored_bytes(ANN).unwrap() > before + 2 * MEGABYTE);
    accept(&fixture);
    let first = fixture.claim();
    let counted = fixture.store.stored_bytes(ANN).unwrap();
    assert!(
        (2 * MEGABYTE..2 * MEGABYTE + 9_000).contains(&counted),
        "an image of a line and its job counts once: {counted}"
    );
    fixture = fixture.crash();
    assert!(is_held(&fixture, 1) && is_held(&fixture, 2), "after a crash");
    let lease = fixture.claim();
    assert_eq!(lease.job.id, first.job.id);
    fixture.store.finish(lease.fence(), vec![], done(lease.job.id, "x")).wait().unwrap();
    fixture.store.cancel_batch(ANN, BATCH).wait().unwrap();
    fixture.store.delete(ANN, lease.job.id).wait().unwrap();
    assert!(!is_held(&fixture, 1), "its job is gone, and the line names it no longer");
    assert!(is_held(&fixture, 2));
}

#[test]
fn p1_images_of_a_batch_that_is_never_accepted_go_with_its_lines() {
    let fixture = Fixture::file();
    fill(&fixture, ANN);
    let crashed = fixture.crash();
    sweep(&crashed);
    assert!(!is_held(&crashed, 1) && !is_held(&crashed, 2), "after a crash");
    assert_eq!(crashed.store.stored_bytes(ANN), Ok(0));
    fixture.store.abandon(BATCH).wait().unwrap();
    sweep(&fixture);
    assert!(!is_held(&fixture, 1) && !is_held(&fixture, 2), "after a refusal");
    assert_eq!(fixture.store.stored_bytes(ANN), Ok(0));
}

#[test]
fn a_deleted_batch_frees_the_images_of_lines_that_never_ran_alone() {
    let fixture = Fixture::new();
    fill(&fixture, ANN);
    accept(&fixture);
    let lease = fixture.claim();
    fixture.store.cancel_batch(ANN, BATCH).wait().unwrap();
    fixture.store.finish(lease.fence(), vec![], done(lease.job.id, "x")).wait().unwrap();
    assert!(is_held(&fixture, 2), "the row of its line is there");
    assert_eq!(fixture.store.delete_batch(ANN, BATCH).wait(), Ok(true));
    sweep(&fixture);
    assert!(!is_held(&fixture, 2));
    assert!(is_held(&fixture, 1), "its job has it");
    fixture.store.delete(ANN, lease.job.id).wait().unwrap();
    assert!(!is_held(&fixture, 1));
    assert_eq!(fixture.store.stored_bytes(ANN), Ok(0));
}

#[test]
fn a_schedule_and_its_jobs_hold_its_images() {
    let mut fixture = Fixture::new();
    let mut asked = order();
    asked.spec.input = vec![look(1)];
    let new = schedule(3, every(60), fixture.clock.now_ms());
    let schedule = new.id;
    fixture.store.put(new, asked, 9).wait().unwrap();
    fixture = fixture.crash();
    assert!(is_held(&fixture, 1));
    fixture.clock.advance(60_000);
    assert_eq!(fixture.store.fire_due(vec![id(50)]).wait().unwrap().jobs.len(), 1);
    assert_eq!(fixture.store.remove(BOB, schedule).wait(), Ok(false), "P7");
    assert_eq!(fixture.store.remove(ANN, schedule).wait(), Ok(true));
    assert!(is_held(&fixture, 1), "its job has it");
    fixture.store.cancel(ANN, id(50)).wait().unwrap();
    fixture.store.delete(ANN, id(50)).wait().unwrap();
    assert!(!is_held(&fixture, 1));
    assert_eq!(fixture.store.stored_bytes(ANN), Ok(0));
}

#[test]
fn added_items_hold_their_images_until_they_are_deleted() {
    let mut fixture = Fixture::new();
    fixture.store.create_conversation(chat(ANN, "chat", fixture.clock.now_ms()), 9).wait().unwrap();
    let add = |fixture: &Fixture, numbers: &[u8]| {
        let items = numbers.iter().map(|number| json!({"id": format!("{number}_add"), "type": "message"}));
        let new = NewItems {
            user: ANN,
            conversation: name("chat"),
            creates: None,
            items: items.collect(),
            messages: numbers.iter().map(|number| look(*number)).collect(),
        };
        fixture.store.add_items(new).wait().unwrap();
    };
    add(&fixture, &[1, 2]);
    add(&fixture, &[2, 3]);
    fixture = fixture.crash();
    assert!([1, 2, 3].iter().all(|number| is_held(&fixture, *number)));
    let query = EntryQuery { from: None, is_newest_first: false, limit: 9 };
    let entries = fixture.store.entries(ANN, &name("chat"), query).unwrap().entries;
    let first = &entries[0];
    let left = StoredItems { added: first.items.added[1..].to_vec(), edits: 1, ..first.items.clone() };
    let (user, number, turn) = (ANN, first.number, vec![look(2)]);
    let edit = ItemsEdit { user, conversation: name("chat"), number, items: left, turn };
    assert_eq!(fixture.store.edit_items(edit).wait(), Ok(true));
    assert!(!is_held(&fixture, 1) && is_held(&fixture, 2), "the deleted item had the first one");
    fixture.store.remove_conversation(ANN, name("chat")).wait().unwrap();
    sweep(&fixture);
    assert!([1, 2, 3].iter().all(|number| !is_held(&fixture, *number)));
    assert_eq!(fixture.store.stored_bytes(ANN), Ok(0));
}
