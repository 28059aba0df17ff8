//! Rows of uploaded files: owners, pages, limits, expiry, and which contents are in use.

use super::fixture::{Fixture, open};
use crate::support::store::{ANN, BOB};
use nanoclaw::domain::account::Quota;
use nanoclaw::domain::id::{FileId, UserId};
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::stored_file::{ContentDigest, FilePurpose, StoredFile};
use nanoclaw::ports::{AccountChange, Clock, NodeStore, QuotaRefusal, StoredFileError, StoredFileQuery};
use nanoclaw::store::options::{RetentionOptions, StoreOptions};
use nanoclaw::store::{ContentDirectory, RetentionAge};
use std::sync::Arc;

const HOUR_MS: u64 = 3_600_000;

fn fid(number: u128) -> FileId {
    FileId::from_bits(number)
}

fn digest(number: u8) -> ContentDigest {
    ContentDigest::from_bytes([number; 32])
}

/// A file of 100 bytes whose content is its number.
fn file(number: u8, user: UserId, purpose: FilePurpose) -> StoredFile {
    StoredFile {
        id: fid(number.into()),
        user,
        name: format!("{number}.txt"),
        purpose,
        bytes: 100,
        content: digest(number),
        created_at_ms: 1_000_000,
        expires_at_ms: None,
    }
}

fn add(store: &Arc<dyn NodeStore>, file: StoredFile) -> StoredFile {
    store.add_file(file).wait().expect("stored")
}

/// A file that expires some time.
pub(crate) fn add_expiring(store: &Arc<dyn NodeStore>, number: u8, user: UserId) -> StoredFile {
    add(store, StoredFile { expires_at_ms: Some(u64::MAX), ..file(number, user, FilePurpose::Batch) })
}

fn unused(store: &Arc<dyn NodeStore>, numbers: &[u8]) -> Vec<ContentDigest> {
    store.unused_contents(numbers.iter().map(|number| digest(*number)).collect()).wait().expect("read")
}

fn query(user: UserId) -> StoredFileQuery {
    StoredFileQuery { user, purpose: None, after: None, is_newest_first: true, limit: 10 }
}

fn listed(store: &Arc<dyn NodeStore>, query: &StoredFileQuery) -> (Vec<u128>, bool) {
    let page = store.files(query).expect("a page");
    (page.files.iter().map(|file| u128::from_be_bytes(file.id.to_bytes())).collect(), page.has_more)
}

#[test]
fn p8_a_file_beyond_its_owners_quota_of_bytes_is_refused() {
    let fixture = Fixture::new();
    let quota = Some(Quota { stored_bytes: Some(5_000), ..Quota::default() });
    fixture.store.change_account(ANN, AccountChange { quota, ..AccountChange::default() }).wait().unwrap();
    let add = |number, user| {
        let file = StoredFile { bytes: 3_000, ..file(number, user, FilePurpose::Batch) };
        fixture.store.add_file(file).wait().map(drop)
    };
    assert_eq!(add(1, ANN), Ok(()));
    let refused = add(2, ANN);
    assert!(
        matches!(refused, Err(StoredFileError::Quota(QuotaRefusal::NewBytes { new: 3_000, .. }))),
        "{refused:?}"
    );
    assert_eq!(add(3, BOB), Ok(()));
    fixture.store.delete_file(ANN, fid(1)).wait().unwrap();
    assert_eq!(add(2, ANN), Ok(()));
}

#[test]
fn p1_a_file_survives_a_crash_unchanged() {
    let fixture = Fixture::new();
    let stored = add(&fixture.store, file(1, ANN, FilePurpose::Batch));
    assert_eq!(fixture.crash().store.file(ANN, fid(1)), Ok(Some(stored)));
}

#[test]
fn p7_files_of_users_are_separate() {
    let fixture = Fixture::new();
    let store = &fixture.store;
    add(store, file(1, ANN, FilePurpose::Batch));
    assert_eq!(store.file(BOB, fid(1)), Ok(None));
    assert_eq!(store.delete_file(BOB, fid(1)).wait(), Ok(None));
    assert_eq!(listed(store, &query(BOB)), (vec![], false));
    // The same id is another file for another user.
    add(store, StoredFile { content: digest(2), ..file(1, BOB, FilePurpose::Vision) });
    assert_eq!(store.file(ANN, fid(1)).unwrap().map(|file| file.content), Some(digest(1)));
    store.delete_file(BOB, fid(1)).wait().unwrap();
    assert_eq!(listed(store, &query(ANN)), (vec![1], false));
}

#[test]
fn pages_follow_each_other_in_both_orders_and_filter_by_purpose() {
    let fixture = Fixture::new();
    let store = &fixture.store;
    for number in 1..=5 {
        let purpose = if number == 3 { FilePurpose::Vision } else { FilePurpose::Batch };
        add(store, file(number, ANN, purpose));
    }
    let all = StoredFileQuery { limit: 2, ..query(ANN) };
    assert_eq!(listed(store, &all), (vec![5, 4], true));
    assert_eq!(listed(store, &StoredFileQuery { after: Some(fid(4)), ..all }), (vec![3, 2], true));
    assert_eq!(listed(store, &StoredFileQuery { after: Some(fid(2)), ..all }), (vec![1], false));
    let oldest_first = StoredFileQuery { is_newest_first: false, after: Some(fid(3)), ..all };
    assert_eq!(listed(store, &oldest_first), (vec![4, 5], false));
    let batches = StoredFileQuery { purpose: Some(FilePurpose::Batch), limit: 4, ..all };
    assert_eq!(listed(store, &batches), (vec![5, 4, 2, 1], false));
    assert_eq!(listed(store, &StoredFileQuery { limit: 3, ..batches }), (vec![5, 4, 2], true));
    let none = StoredFileQuery { after: Some(fid(1)), ..all };
    assert_eq!(listed(store, &none), (vec![], false));
}

#[test]
fn p8_files_of_a_user_are_bounded_by_number_and_bytes() {
    let fixture = Fixture::with(&Limits { user_files: 3, user_files_bytes: 250, ..Limits::default() });
    let store = &fixture.store;
    add(store, file(1, ANN, FilePurpose::Batch));
    add(store, file(2, ANN, FilePurpose::Batch));
    let full = StoredFileError::BytesFull { new: 100, stored: 200, limit: 250 };
    assert_eq!(store.add_file(file(3, ANN, FilePurpose::Batch)).wait(), Err(full.clone()));
    assert_eq!(store.check_room(ANN, 100), Err(full));
    assert_eq!((store.check_room(ANN, 50), store.check_room(BOB, 250)), (Ok(()), Ok(())));
    add(store, StoredFile { bytes: 0, ..file(3, ANN, FilePurpose::Batch) });
    let full = StoredFileError::FilesFull { limit: 3 };
    assert_eq!(store.check_room(ANN, 0), Err(full.clone()));
    assert_eq!(store.add_file(file(4, ANN, FilePurpose::Batch)).wait(), Err(full));
    store.delete_file(ANN, fid(1)).wait().unwrap();
    add(store, file(4, ANN, FilePurpose::Batch));
}

#[test]
fn a_content_is_used_while_any_file_of_any_user_has_it() {
    let fixture = Fixture::new();
    let store = &fixture.store;
    add(store, file(1, ANN, FilePurpose::Batch));
    add(store, StoredFile { content: digest(1), ..file(2, BOB, FilePurpose::Batch) });
    assert_eq!(unused(store, &[1, 2]), [digest(2)]);
    store.delete_file(ANN, fid(1)).wait().unwrap();
    assert_eq!(unused(store, &[1]), []);
    store.delete_file(BOB, fid(2)).wait().unwrap();
    assert_eq!(unused(store, &[1]), [digest(1)]);
}

#[test]
fn p8_stored_bytes_include_contents_and_are_given_back() {
    let fixture = Fixture::new();
    let store = &fixture.store;
    let before = store.stored_bytes(ANN).unwrap();
    add(store, StoredFile { bytes: 5_000, ..file(1, ANN, FilePurpose::Batch) });
    let stored = store.stored_bytes(ANN).unwrap() - before;
    assert!((5_000..6_000).contains(&stored), "content and row: {stored}");
    store.delete_file(ANN, fid(1)).wait().unwrap();
    assert_eq!(store.stored_bytes(ANN), Ok(before));
}

/// Opens the store again with a retention of files of an hour.
fn reopen_with_retention(fixture: &mut Fixture) {
    let retention = RetentionOptions { files: RetentionAge::For(HOUR_MS), ..RetentionOptions::default() };
    let options = StoreOptions { retention, ..StoreOptions::default() };
    fixture.reopen(&options, &Limits::default());
}

#[test]
fn a_file_tells_the_earlier_one_of_its_own_expiry_and_that_of_retention() {
    let mut fixture = Fixture::new();
    let forever = add(&fixture.store, file(1, ANN, FilePurpose::Batch));
    assert_eq!(forever.expires_at_ms, None);
    reopen_with_retention(&mut fixture);
    let store = &fixture.store;
    let created_at_ms = forever.created_at_ms;
    let expiry = |number, expires_at_ms| {
        add(store, StoredFile { expires_at_ms, ..file(number, ANN, FilePurpose::Batch) }).expires_at_ms
    };
    assert_eq!(expiry(2, None), Some(created_at_ms + HOUR_MS));
    assert_eq!(expiry(3, Some(created_at_ms + 5)), Some(created_at_ms + 5));
    assert_eq!(expiry(4, Some(created_at_ms + 2 * HOUR_MS)), Some(created_at_ms + HOUR_MS));
    assert_eq!(store.file(ANN, fid(1)).unwrap().unwrap().expires_at_ms, None, "older files keep theirs");
}

#[test]
fn expired_files_are_removed_and_their_contents_are_free() {
    let fixture = Fixture::new();
    let now_ms = fixture.clock.now_ms();
    let expiring = |number, after_ms| StoredFile {
        expires_at_ms: Some(now_ms + after_ms),
        ..file(number, ANN, FilePurpose::Batch)
    };
    for (number, after_ms) in [(1, 1_000), (2, 2_000), (3, 10 * HOUR_MS)] {
        add(&fixture.store, expiring(number, after_ms));
    }
    add(&fixture.store, file(4, ANN, FilePurpose::Batch));
    fixture.clock.advance(6_000);
    for _ in 0..4 {
        fixture.store.run_retention().unwrap();
    }
    assert_eq!(listed(&fixture.store, &query(ANN)), (vec![4, 3], false));
    assert_eq!(unused(&fixture.store, &[1, 2, 3, 4]), [digest(1), digest(2)]);
}

#[test]
fn a_new_store_has_no_contents_of_an_older_one() {
    let fixture = Fixture::file();
    let other = open(&fixture.dir().join("other.redb"), &Limits::default(), Arc::clone(&fixture.clock));
    assert_eq!(unused(&(other.expect("open") as Arc<dyn NodeStore>), &[1]), [digest(1)]);
    drop(ContentDirectory::open(&fixture.dir().join("none"), fixture.store.clone()));
    assert!(!fixture.dir().join("none").exists(), "made on first use");
}
