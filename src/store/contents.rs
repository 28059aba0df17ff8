//! Contents of uploaded files in a directory: one file for each, named by its SHA-256. A content gets its
//! name when it is complete and flushed. It is removed when no row of the store names it.
//!
//! A pin protects a content between its name and its row. A removal holds the locks of the pins meanwhile,
//! and asks the store behind all queued writes. Nodes may share the directory.

use crate::domain::stored_file::ContentDigest;
use crate::ports::{Contents, IncomingContent, PinnedContent, SharedFiles, StoreError, StoredFiles};
use crate::store::atomic_file::{AtomicFile, sync_directory_of};
use crate::store::content_pins::ContentPins;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Name prefix of unfinished contents.
const INCOMING_PREFIX: &str = "incoming-";
/// Contents that a sweep asks for at once.
const SWEEP_CONTENTS: usize = 256;
/// Age after which nodes that share the directory remove an unfinished content.
const LEFTOVER: Duration = Duration::from_secs(3_600);
/// Bytes that a check reads at once.
const CHECK_BYTES: usize = 256 * 1024;

/// The directory. Only the server that holds the store may use it, or the nodes that share the store.
pub struct ContentDirectory {
    shared: Arc<SharedDirectory>,
    files: Arc<dyn StoredFiles>,
    next: AtomicU64,
}

struct SharedDirectory {
    path: PathBuf,
    pins: Arc<ContentPins>,
    /// What the nodes share, if there are several.
    nodes: Option<Arc<dyn SharedFiles>>,
}

impl ContentDirectory {
    /// Contents in this directory, which is created on first use. Removes what an earlier process has not
    /// finished.
    pub fn open(path: &Path, files: Arc<dyn StoredFiles>) -> Self {
        let shared = Arc::new(SharedDirectory { path: path.to_owned(), pins: Arc::default(), nodes: None });
        shared.remove_incoming(|_| true);
        Self { shared, files, next: AtomicU64::new(0) }
    }

    /// Contents in a directory that nodes share. What another node has not finished stays for an hour.
    pub fn open_shared(path: &Path, files: Arc<dyn StoredFiles>, nodes: Arc<dyn SharedFiles>) -> Self {
        let pins = Arc::new(ContentPins::of_nodes(Arc::clone(&nodes)));
        let shared = Arc::new(SharedDirectory { path: path.to_owned(), pins, nodes: Some(nodes) });
        Self { shared, files, next: AtomicU64::new(0) }
    }

    /// Reads these contents completely. Returns a text for each that is missing or damaged.
    pub fn check(path: &Path, contents: &BTreeMap<ContentDigest, u64>) -> Vec<String> {
        let fault = |(content, bytes): (&ContentDigest, &u64)| {
            let found = match digest_of(&path.join(content.to_string())) {
                Ok((digest, read)) if (digest, read) == (*content, *bytes) => return None,
                Ok(_) => "it is damaged".to_owned(),
                Err(error) if error.kind() == ErrorKind::NotFound => "it is missing".to_owned(),
                Err(error) => error.to_string(),
            };
            Some(format!("content {content} ({found})"))
        };
        contents.iter().filter_map(fault).collect()
    }

    /// Removes those of these contents that nothing needs.
    fn remove_all_unused(&self, contents: Vec<ContentDigest>) -> Result<(), StoreError> {
        self.shared.check()?;
        self.shared.pins.with_free(contents, |free| {
            for content in self.files.unused_contents(free).wait()? {
                match fs::remove_file(self.shared.file(content)) {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                    _ => {}
                }
            }
            Ok(())
        })
    }

    /// The path of a new unfinished content.
    fn incoming(&self) -> PathBuf {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let name = match &self.shared.nodes {
            Some(nodes) => format!("{INCOMING_PREFIX}{}-{number}", nodes.process_tag()),
            None => format!("{INCOMING_PREFIX}{number}"),
        };
        self.shared.path.join(name)
    }

    /// Removes what other nodes have begun long ago, by the time of the file system: their clocks may differ.
    fn remove_old_incoming(&self) -> Result<(), StoreError> {
        if !self.shared.path.is_dir() {
            return Ok(());
        }
        let now = AtomicFile::begin(&self.incoming())?.file().metadata()?.modified()?;
        self.shared.remove_incoming(|path| {
            let changed = fs::metadata(path).and_then(|found| found.modified());
            changed.is_ok_and(|changed| now.duration_since(changed).is_ok_and(|age| age > LEFTOVER))
        });
        Ok(())
    }
}

fn digest_of(path: &Path) -> io::Result<(ContentDigest, u64)> {
    let (mut file, mut digest, mut bytes) = (File::open(path)?, Sha256::new(), 0_u64);
    let mut piece = vec![0; CHECK_BYTES];
    loop {
        let count = file.read(&mut piece)?;
        let Some(read) = piece.get(..count).filter(|read| !read.is_empty()) else { break };
        digest.update(read);
        bytes = bytes.saturating_add(count as u64);
    }
    Ok((ContentDigest::from_bytes(digest.finalize().into()), bytes))
}

impl SharedDirectory {
    /// Fails while this node may not use the directory.
    fn check(&self) -> Result<(), StoreError> {
        self.nodes.as_ref().map_or(Ok(()), |nodes| nodes.check().map_err(StoreError::FilesUnavailable))
    }

    fn file(&self, content: ContentDigest) -> PathBuf {
        self.path.join(content.to_string())
    }

    /// Creates the directory, unless it exists; the disk has it when this returns.
    fn provide(&self) -> Result<(), StoreError> {
        if self.path.is_dir() {
            return Ok(());
        }
        match fs::DirBuilder::new().mode(0o700).create(&self.path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.into()),
            _ => {}
        }
        Ok(sync_directory_of(&self.path)?)
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().into_string().ok());
        entries.filter_map(|entry| name(entry).transpose()).collect()
    }

    fn remove_incoming(&self, is_left: impl Fn(&Path) -> bool) {
        let names = match self.names() {
            Ok(names) => names,
            Err(error) => return tracing::warn!(%error, "cannot list the contents of files"),
        };
        for name in names.iter().filter(|name| name.starts_with(INCOMING_PREFIX)) {
            let path = self.path.join(name);
            if !is_left(&path) {
                continue;
            }
            if let Err(error) = fs::remove_file(path) {
                tracing::warn!(%error, name, "an unfinished upload stays");
            }
        }
    }
}

impl Contents for ContentDirectory {
    fn begin(&self) -> Result<Box<dyn IncomingContent>, StoreError> {
        self.shared.check()?;
        self.shared.provide()?;
        let draft = AtomicFile::begin(&self.incoming())?;
        Ok(Box::new(ContentDraft {
            shared: Arc::clone(&self.shared),
            draft,
            digest: Sha256::new(),
            bytes: 0,
        }))
    }

    fn open(&self, content: ContentDigest) -> Result<Option<File>, StoreError> {
        self.shared.check()?;
        match File::open(self.shared.file(content)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            opened => Ok(Some(opened?)),
        }
    }

    fn pin(&self, content: ContentDigest) -> Result<Option<PinnedContent>, StoreError> {
        self.shared.check()?;
        // Before the look: a removal holds the locks of the pins.
        let pin = self.shared.pins.pin(content)?;
        let Some(file) = self.open(content)? else { return Ok(None) };
        let bytes = file.metadata()?.len();
        Ok(Some(PinnedContent { digest: content, bytes, pin: Box::new(pin) }))
    }

    fn remove_unused(&self, content: ContentDigest) {
        if let Err(error) = self.remove_all_unused(vec![content]) {
            tracing::warn!(%content, %error, "cannot remove the content of a file; trying again later");
        }
    }

    fn sweep(&self) -> Result<(), StoreError> {
        self.shared.check()?;
        if self.shared.nodes.is_some() {
            self.remove_old_incoming()?;
        }
        let names = self.shared.names()?;
        let contents: Vec<ContentDigest> = names.iter().filter_map(|name| name.parse().ok()).collect();
        contents.chunks(SWEEP_CONTENTS).try_for_each(|some| self.remove_all_unused(some.to_vec()))
    }
}

/// A content that is being written.
struct ContentDraft {
    shared: Arc<SharedDirectory>,
    draft: AtomicFile,
    digest: Sha256,
    bytes: u64,
}

impl IncomingContent for ContentDraft {
    fn write(&mut self, piece: &[u8]) -> Result<(), StoreError> {
        self.draft.file().write_all(piece)?;
        self.digest.update(piece);
        self.bytes = self.bytes.saturating_add(piece.len() as u64);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<PinnedContent, StoreError> {
        let Self { shared, draft, digest, bytes } = *self;
        let digest = ContentDigest::from_bytes(digest.finalize().into());
        // Before the name: a sweep removes names without a pin.
        let pin = shared.pins.pin(digest)?;
        // Replaces the same content, which a fault of the disk may have damaged.
        draft.finish_as(&shared.file(digest))?;
        Ok(PinnedContent { digest, bytes, pin: Box::new(pin) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::system::SystemClock;
    use crate::domain::id::{FileId, UserId};
    use crate::domain::stored_file::{FilePurpose, StoredFile};
    use crate::store::RedbStore;

    struct Setup {
        store: Arc<RedbStore>,
        contents: ContentDirectory,
        home: tempfile::TempDir,
    }

    impl Setup {
        fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            let store = RedbStore::in_memory(Arc::new(SystemClock::new()));
            let contents = ContentDirectory::open(&home.path().join("files"), store.clone());
            Self { store, contents, home }
        }

        fn put(&self, text: &str) -> PinnedContent {
            let mut draft = self.contents.begin().unwrap();
            text.as_bytes().chunks(3).try_for_each(|piece| draft.write(piece)).unwrap();
            draft.finish().unwrap()
        }

        fn add_row(&self, number: u128, content: &PinnedContent) {
            let file = StoredFile {
                id: FileId::from_bits(number),
                user: UserId::SINGLE,
                name: "a".to_owned(),
                purpose: FilePurpose::UserData,
                bytes: content.bytes,
                content: content.digest,
                created_at_ms: 1,
                expires_at_ms: None,
            };
            self.store.add_file(file).wait().unwrap();
        }

        fn names(&self) -> Vec<String> {
            self.contents.shared.names().unwrap()
        }
    }

    #[test]
    fn a_content_is_found_by_its_sha_256_and_stored_once() {
        let setup = Setup::new();
        let (first, second) = (setup.put("hello"), setup.put("hello"));
        let hello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        assert_eq!((first.digest.to_string().as_str(), first.bytes), (hello, 5));
        assert_eq!((second.digest, setup.names()), (first.digest, vec![hello.to_owned()]));
        let mut text = String::new();
        setup.contents.open(first.digest).unwrap().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        assert!(setup.contents.open(ContentDigest::from_bytes([0; 32])).unwrap().is_none());
        assert_eq!(setup.put("").bytes, 0);
    }

    #[test]
    fn an_unfinished_content_leaves_nothing_behind() {
        let setup = Setup::new();
        let mut draft = setup.contents.begin().unwrap();
        draft.write(b"half").unwrap();
        assert_eq!(setup.names().len(), 1);
        drop(draft);
        assert_eq!(setup.names(), Vec::<String>::new());
        // One of a process that was killed.
        let path = setup.home.path().join("files");
        fs::write(path.join("incoming-7.part"), "half").unwrap();
        fs::write(path.join("notes"), "not ours").unwrap();
        let contents = ContentDirectory::open(&path, setup.store.clone());
        contents.sweep().unwrap();
        assert_eq!(setup.names(), ["notes"]);
    }

    #[test]
    fn a_content_stays_while_it_is_pinned_or_a_row_has_it() {
        let setup = Setup::new();
        let (kept, dropped) = (setup.put("kept"), setup.put("dropped"));
        setup.contents.sweep().unwrap();
        assert_eq!(setup.names().len(), 2, "both are pinned");
        setup.add_row(1, &kept);
        let again = setup.put("dropped");
        drop(dropped.pin);
        setup.contents.remove_unused(again.digest);
        assert_eq!(setup.names().len(), 2, "the second pin holds");
        drop((kept.pin, again.pin));
        setup.contents.sweep().unwrap();
        assert_eq!(setup.names(), [kept.digest.to_string()]);
        setup.contents.remove_unused(kept.digest);
        assert_eq!(setup.names().len(), 1);
        setup.store.delete_file(UserId::SINGLE, FileId::from_bits(1)).wait().unwrap();
        setup.contents.remove_unused(kept.digest);
        assert_eq!(setup.names().len(), 0);
    }

    #[test]
    fn nothing_is_removed_once_the_store_is_closed() {
        let setup = Setup::new();
        let content = setup.put("x");
        drop(content.pin);
        setup.store.close();
        assert!(setup.contents.sweep().is_err());
        setup.contents.remove_unused(content.digest);
        assert_eq!(setup.names().len(), 1);
    }

    #[test]
    fn a_check_names_missing_and_damaged_contents() {
        let setup = Setup::new();
        let (whole, cut) = (setup.put("whole"), setup.put("cut off"));
        let gone = ContentDigest::from_bytes([1; 32]);
        fs::write(setup.contents.shared.file(cut.digest), "cut").unwrap();
        let all = BTreeMap::from([(whole.digest, 5), (cut.digest, 7), (gone, 9)]);
        let mut found = ContentDirectory::check(&setup.contents.shared.path, &all);
        found.sort();
        let mut expected =
            [format!("content {} (it is damaged)", cut.digest), format!("content {gone} (it is missing)")];
        expected.sort();
        assert_eq!(found, expected);
    }
}
