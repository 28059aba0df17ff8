//! The directory that all nodes of a database share: `store.shared_dir`. Its beacon, a file with the number
//! that the database knows as well, shows that a node sees the directory of the others. Locks are `flock` on
//! files in it: they end with their process.

use crate::config::Config;
use crate::ports::{
    BEACON_FILE, BEACON_SETTING, CancelToken, Clock, Entropy, HeldLock, LockMode, NodeStore, SharedFiles,
    SharedLock, SharedLockKind,
};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The directory of the lock files.
const LOCKS: &str = "locks";
const PRIVATE_DIR: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;
/// Pause before a node that does not see the directory looks again, milliseconds.
const LOOK_AGAIN_MS: u64 = 2_000;
/// How long a change waits for one of another node, milliseconds.
const LOCK_WAIT_MS: u64 = 5_000;
/// Longest pause between two attempts, milliseconds.
const LOCK_PAUSE_MS: u64 = 20;

const NOT_SET: &str = "this server is one of several nodes, which share projects and files in one directory; \
                       store.shared_dir does not name it, so this node refuses both";
const NO_BEACON: &str = "the directory that the nodes share is not there on this node: its store.shared_dir has no \
                         nanoclaw.beacon, so this node takes no jobs, and refuses projects and files";
const OTHER_BEACON: &str = "store.shared_dir of this node is not the directory that the other nodes share: its \
                            nanoclaw.beacon differs, so this node takes no jobs, and refuses projects and files";
pub(super) const HINT: &str = "name the same directory on all nodes, and see that it is mounted; if this is the right one, copy \
                    nanoclaw.beacon from a node that has the files";

/// The beacon as a file: its device and number.
type BeaconFile = (u64, u64);

/// The directory, as this node sees it.
pub(super) struct SharedDir {
    /// `None`: the setting is missing.
    path: Option<PathBuf>,
    store: Arc<dyn NodeStore>,
    clock: Arc<dyn Clock>,
    process_tag: String,
    /// The number that the database knows.
    beacon: OnceLock<String>,
    last_look: Mutex<Option<LastLook>>,
    /// Locks that a node has held for long. Nobody waits for them again: a stopped node would take all
    /// threads of this one.
    overdue: Mutex<HashSet<(SharedLockKind, u8)>>,
}

struct LastLook {
    at_ms: u64,
    /// The beacon that was seen, or why this node may not use the directory.
    found: Result<BeaconFile, String>,
}

impl SharedDir {
    /// The directory of a node; `None` if the store has no nodes. A node that does not see the directory
    /// starts all the same.
    pub(super) fn open(
        config: &Config,
        store: &Arc<dyn NodeStore>,
        clock: &Arc<dyn Clock>,
        entropy: &dyn Entropy,
    ) -> Option<Arc<Self>> {
        config.store.url.as_ref()?;
        let dir = Self {
            path: config.store.shared_dir.clone(),
            store: Arc::clone(store),
            clock: Arc::clone(clock),
            process_tag: format!("{:032x}", entropy.random()),
            beacon: OnceLock::new(),
            last_look: Mutex::new(None),
            overdue: Mutex::default(),
        };
        drop(dir.check()); // it logs
        Some(Arc::new(dir))
    }

    /// Its path; `None`: the setting is missing.
    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn last_look(&self) -> MutexGuard<'_, Option<LastLook>> {
        self.last_look.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn overdue(&self) -> MutexGuard<'_, HashSet<(SharedLockKind, u8)>> {
        self.overdue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the beacon, and makes it if this is the first node.
    fn look(&self) -> Result<BeaconFile, String> {
        let path = self.path.as_deref().ok_or_else(|| NOT_SET.to_owned())?;
        let file = path.join(BEACON_FILE);
        let mut is_new = false;
        let found = match fs::read_to_string(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound && self.beacon.get().is_none() => {
                is_new = self.make_beacon(path, &file).map_err(|error| unusable(&error))?;
                fs::read_to_string(&file).map_err(|error| unusable(&error))?
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(NO_BEACON.to_owned()),
            other => other.map_err(|error| unusable(&error))?,
        };
        let seen = self.compare(found.trim()).and_then(|()| {
            self.provide_locks(path)?;
            beacon_file(&file).map_err(|error| unusable(&error))
        });
        if seen.is_err() && is_new {
            drop(fs::remove_file(&file));
        }
        seen
    }

    /// Fails unless the database knows this number. The first one that it is asked about is the cluster's.
    fn compare(&self, found: &str) -> Result<(), String> {
        let known = if let Some(known) = self.beacon.get() {
            known
        } else {
            let known =
                self.store.shared_setting(BEACON_SETTING, found).map_err(|error| error.to_string())?;
            self.beacon.get_or_init(|| known.unwrap_or_else(|| found.to_owned()))
        };
        if known == found { Ok(()) } else { Err(OTHER_BEACON.to_owned()) }
    }

    /// Writes the beacon, complete at once. Returns whether this node has made it.
    fn make_beacon(&self, path: &Path, file: &Path) -> io::Result<bool> {
        let draft = path.join(format!("{BEACON_FILE}.{}", self.process_tag));
        let mut opened =
            OpenOptions::new().write(true).create(true).truncate(true).mode(PRIVATE_FILE).open(&draft)?;
        opened.write_all(format!("{}\n", self.process_tag).as_bytes())?;
        opened.sync_all()?;
        let made = match fs::hard_link(&draft, file) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            // No hard links here.
            Err(_) => fs::rename(&draft, file).map(|()| true),
            Ok(()) => Ok(true),
        };
        drop(fs::remove_file(&draft));
        File::open(path)?.sync_all()?;
        made
    }

    /// Makes the directory of the lock files, and tries one.
    fn provide_locks(&self, path: &Path) -> Result<(), String> {
        match DirBuilder::new().mode(PRIVATE_DIR).create(path.join(LOCKS)) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(unusable(&error)),
            _ => {}
        }
        self.try_lock(SharedLock { kind: SharedLockKind::Cleaner, slot: 1, mode: LockMode::Shared }).map(drop)
    }

    fn open_lock(&self, lock: SharedLock) -> Result<File, String> {
        let path = self.path.as_deref().ok_or_else(|| NOT_SET.to_owned())?;
        let file = path.join(LOCKS).join(format!("{}-{:02x}", lock.kind.name(), lock.slot));
        let mut options = OpenOptions::new();
        // Network file systems want a descriptor that may write.
        options.read(true).write(true).create(true).truncate(false).mode(PRIVATE_FILE);
        options.open(file).map_err(|error| unusable(&error))
    }

    fn log_change(&self, before: Option<&LastLook>, found: &Result<BeaconFile, String>) {
        let path = self.path.as_deref().unwrap_or(Path::new("")).display();
        match (before.map(|before| &before.found), found) {
            (None | Some(Err(_)), Ok(_)) => tracing::info!(%path, "shared directory found"),
            (Some(Err(before)), Err(reason)) if before == reason => {}
            (_, Err(reason)) => tracing::warn!(%path, reason, hint = HINT, "projects and files are refused"),
            (Some(Ok(_)), Ok(_)) => {}
        }
    }
}

impl SharedFiles for SharedDir {
    fn check(&self) -> Result<(), String> {
        let now_ms = self.clock.monotonic_ms();
        let mut last = self.last_look();
        match &*last {
            Some(LastLook { found: Ok(seen), .. }) => {
                let beacon = self.path.as_ref().map(|path| beacon_file(&path.join(BEACON_FILE)));
                if matches!(beacon, Some(Ok(id)) if id == *seen) {
                    return Ok(());
                }
            }
            Some(LastLook { found: Err(reason), at_ms }) if now_ms < at_ms.saturating_add(LOOK_AGAIN_MS) => {
                return Err(reason.clone());
            }
            _ => {}
        }
        let found = self.look();
        self.log_change(last.as_ref(), &found);
        let outcome = found.as_ref().map(|_| ()).map_err(String::clone);
        *last = Some(LastLook { at_ms: now_ms, found });
        outcome
    }

    fn process_tag(&self) -> &str {
        &self.process_tag
    }

    fn lock(&self, lock: SharedLock) -> Result<HeldLock, String> {
        let (file, name) = (self.open_lock(lock)?, (lock.kind, lock.slot));
        let wait_ms = if self.overdue().contains(&name) { 0 } else { LOCK_WAIT_MS };
        let until_ms = self.clock.monotonic_ms().saturating_add(wait_ms);
        let (never, mut pause_ms) = (CancelToken::new(Arc::clone(&self.clock)), 1);
        while !flock(&file, lock.mode)? {
            if self.clock.monotonic_ms() >= until_ms {
                self.overdue().insert(name);
                return Err("another node changes the same files for long; try again in a moment".to_owned());
            }
            self.clock.sleep(&never, Duration::from_millis(pause_ms));
            pause_ms = pause_ms.saturating_mul(2).min(LOCK_PAUSE_MS);
        }
        self.overdue().remove(&name);
        Ok(Box::new(file))
    }

    fn try_lock(&self, lock: SharedLock) -> Result<Option<HeldLock>, String> {
        let file = self.open_lock(lock)?;
        Ok(flock(&file, lock.mode)?.then(|| -> HeldLock { Box::new(file) }))
    }
}

/// Whether the lock is taken now; `false`: another holder is in the way.
fn flock(file: &File, mode: LockMode) -> Result<bool, String> {
    let operation = match mode {
        LockMode::Shared => FlockOperation::NonBlockingLockShared,
        LockMode::Exclusive => FlockOperation::NonBlockingLockExclusive,
    };
    match rustix::fs::flock(file, operation) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
        Err(error) => Err(unusable(&error.into())),
    }
}

fn beacon_file(path: &Path) -> io::Result<BeaconFile> {
    let found = fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

fn unusable(error: &io::Error) -> String {
    format!(
        "this node takes no jobs, and refuses projects and files, because it cannot use store.shared_dir: {error}"
    )
}

#[cfg(test)]
mod tests {
    use super::super::project_cleanup::remove_unclaimed;
    use super::super::shared_dir_watch::SharedDirWatch;
    use super::super::system::{SystemClock, SystemEntropy};
    use super::*;
    use crate::domain::id::{ProjectId, UserId};
    use crate::domain::limits::Limits;
    use crate::domain::project::Project;
    use crate::domain::workspace::{UserDirectories, Workspace};
    use crate::ports::{
        Contents, FileError, Projects, SharedDirState, StorageAllowance, StorageScope, Workspaces,
    };
    use crate::store::{ContentDirectory, RedbStore};
    use crate::workspace::HostFiles;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Nodes that share a directory.
    struct Nodes {
        home: tempfile::TempDir,
        store: Arc<RedbStore>,
        clock: Arc<dyn Clock>,
    }

    impl Nodes {
        fn new() -> Self {
            let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
            let store = RedbStore::in_memory(Arc::clone(&clock));
            Self { home: tempfile::tempdir().unwrap(), store, clock }
        }

        /// Another node, whose database knows this beacon if it says one.
        fn node(&self, beacon: Option<&str>) -> Arc<SharedDir> {
            Arc::new(SharedDir {
                path: Some(self.home.path().to_owned()),
                store: self.store.clone(),
                clock: Arc::clone(&self.clock),
                process_tag: format!("{:032x}", SystemEntropy.random()),
                beacon: beacon.map_or_else(OnceLock::new, |beacon| OnceLock::from(beacon.to_owned())),
                last_look: Mutex::new(None),
                overdue: Mutex::default(),
            })
        }

        fn files(&self, limits: &Limits) -> HostFiles {
            let (root, users) = (self.home.path().join("workspaces"), UserDirectories::new(&[7; 32]));
            let files = HostFiles::new(root, users, limits, Arc::clone(&self.clock));
            files.shared_by_nodes(self.node(None))
        }

        fn contents(&self) -> ContentDirectory {
            ContentDirectory::open_shared(
                &self.home.path().join("files"),
                self.store.clone(),
                self.node(None),
            )
        }

        fn names(&self, directory: &str) -> Vec<String> {
            let entries = fs::read_dir(self.home.path().join(directory)).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    fn project(bits: u128) -> Project {
        Project {
            id: ProjectId::from_bits(bits),
            user: UserId(1),
            name: "app".to_owned().try_into().unwrap(),
            directory: "app".to_owned(),
            description: String::new(),
            created_at_ms: 1,
            updated_at_ms: 1,
        }
    }

    const EXCLUSIVE: SharedLock =
        SharedLock { kind: SharedLockKind::Workspace, slot: 7, mode: LockMode::Exclusive };

    #[test]
    fn the_first_node_makes_the_beacon_and_all_others_find_it() {
        let nodes = Nodes::new();
        let (one, two) = (nodes.node(None), nodes.node(None));
        assert_eq!((one.check(), two.check()), (Ok(()), Ok(())));
        let beacon = fs::read_to_string(nodes.home.path().join(BEACON_FILE)).unwrap();
        assert_eq!(beacon.trim(), one.process_tag);
        let mut names = nodes.names("");
        names.sort();
        assert_eq!(names, [LOCKS, BEACON_FILE]);
    }

    #[test]
    fn a_directory_with_another_beacon_or_without_one_is_refused_until_it_is_the_right_one() {
        let nodes = Nodes::new();
        nodes.node(None).check().unwrap();
        let beacon = nodes.home.path().join(BEACON_FILE);
        let right = fs::read_to_string(&beacon).unwrap();
        let node = nodes.node(Some(right.trim()));
        node.check().unwrap();
        fs::remove_file(&beacon).unwrap();
        assert_eq!(node.check(), Err(NO_BEACON.to_owned()));
        let look_now = || *node.last_look() = None;
        fs::write(&beacon, "0123").unwrap();
        look_now();
        assert_eq!(node.check(), Err(OTHER_BEACON.to_owned()));
        assert_eq!(nodes.node(Some(right.trim())).check(), Err(OTHER_BEACON.to_owned()));
        fs::write(&beacon, &right).unwrap();
        look_now();
        assert_eq!(node.check(), Ok(()));
    }

    #[test]
    fn a_lock_keeps_other_nodes_out_until_it_is_dropped() {
        let nodes = Nodes::new();
        let (one, two) = (nodes.node(None), nodes.node(None));
        one.check().unwrap();
        let shared = SharedLock { mode: LockMode::Shared, ..EXCLUSIVE };
        let held = one.lock(EXCLUSIVE).unwrap();
        assert!(two.try_lock(EXCLUSIVE).unwrap().is_none() && two.try_lock(shared).unwrap().is_none());
        assert!(two.try_lock(SharedLock { slot: 8, ..EXCLUSIVE }).unwrap().is_some());
        drop(held);
        let (_one, _two) = (one.lock(shared).unwrap(), two.lock(shared).unwrap());
        assert!(two.try_lock(EXCLUSIVE).unwrap().is_none());
    }

    #[test]
    fn a_change_waits_for_one_of_another_node() {
        let nodes = Nodes::new();
        let (one, two) = (nodes.node(None), nodes.node(None));
        one.check().unwrap();
        let held = one.lock(EXCLUSIVE).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| two.lock(EXCLUSIVE).map(drop));
            one.clock.sleep(&CancelToken::new(Arc::clone(&one.clock)), Duration::from_millis(50));
            assert!(!waiting.is_finished());
            drop(held);
            assert_eq!(waiting.join().unwrap(), Ok(()));
        });
    }

    #[test]
    fn nobody_waits_twice_for_a_node_that_holds_a_lock_for_long() {
        let nodes = Nodes::new();
        let (one, two) = (nodes.node(None), nodes.node(None));
        one.check().unwrap();
        let held = one.lock(EXCLUSIVE).unwrap();
        two.overdue().insert((EXCLUSIVE.kind, EXCLUSIVE.slot));
        let before_ms = two.clock.monotonic_ms();
        assert!(two.lock(EXCLUSIVE).is_err());
        assert!(two.clock.monotonic_ms() < before_ms + LOCK_WAIT_MS);
        drop(held);
        assert!(two.lock(EXCLUSIVE).is_ok() && two.overdue().is_empty());
    }

    #[test]
    fn uploads_at_two_nodes_share_the_quota_of_a_project() {
        let nodes = Nodes::new();
        let (one, two) = (nodes.files(&Limits::default()), nodes.files(&Limits::default()));
        let (p, allowance) = (
            Workspace::from(&project(1)),
            StorageAllowance { bytes: 10, entries: 4, scope: StorageScope::Project },
        );
        one.make(&p).unwrap();
        let upload = |files: &HostFiles, name: &str| {
            let mut upload = files.upload(&p, allowance).unwrap();
            upload.begin(name).and_then(|()| upload.write(b"123456")).and_then(|()| upload.end()).unwrap();
            upload
        };
        let (mut first, mut second) = (upload(&one, "d/a"), upload(&two, "d/b"));
        assert_eq!(second.finish(), Ok(()));
        assert!(matches!(first.finish(), Err(FileError::Quota(_))));
        assert_eq!(one.stats(&p).unwrap().size, 6);
    }

    #[test]
    fn a_content_that_one_node_has_pinned_or_not_finished_is_not_removed_by_another() {
        let nodes = Nodes::new();
        let (one, two) = (nodes.contents(), nodes.contents());
        let mut draft = one.begin().unwrap();
        draft.write(b"pinned").unwrap();
        let pinned = draft.finish().unwrap();
        let unfinished = one.begin().unwrap();
        let _other = two.begin().unwrap();
        assert_eq!(nodes.names("files").len(), 3, "their names differ");
        two.sweep().unwrap();
        two.remove_unused(pinned.digest);
        assert_eq!(nodes.names("files").len(), 3);
        drop((unfinished, pinned));
        two.sweep().unwrap();
        assert_eq!(nodes.names("files").len(), 1);
    }

    #[test]
    fn what_a_node_left_of_an_upload_goes_after_an_hour_of_the_file_system() {
        let nodes = Nodes::new();
        let contents = nodes.contents();
        drop(contents.begin().unwrap());
        for (name, age_s) in [("incoming-x-1.part", 3_700), ("incoming-x-2.part", 3_500)] {
            let file = File::create(nodes.home.path().join("files").join(name)).unwrap();
            let modified = file.metadata().unwrap().modified().unwrap();
            file.set_modified(modified - Duration::from_secs(age_s)).unwrap();
        }
        contents.sweep().unwrap();
        assert_eq!(nodes.names("files"), ["incoming-x-2.part"]);
    }

    #[test]
    fn the_directory_of_a_project_that_a_node_makes_is_no_leftover() {
        let nodes = Nodes::new();
        let (files, cleaner) = (nodes.files(&Limits::default()), nodes.node(None));
        let workspace = Workspace::from(&project(1));
        let claim = files.claim(&workspace).unwrap();
        nodes.store.reserve_project(project(1), 9).wait().unwrap();
        files.make(&workspace).unwrap();
        let clean = || remove_unclaimed(&*nodes.store, &files, &*cleaner);
        clean();
        assert!(files.absolute(&workspace).is_dir(), "its node makes it");
        drop(claim);
        clean();
        assert!(!files.absolute(&workspace).exists(), "its node died");
        assert_eq!(nodes.store.pending_removals(), Ok(Vec::new()));
    }

    /// A clock that is so many milliseconds ahead.
    struct AheadClock(SystemClock, AtomicU64);

    impl Clock for AheadClock {
        fn now_ms(&self) -> u64 {
            self.0.now_ms()
        }
        fn monotonic_ms(&self) -> u64 {
            self.0.monotonic_ms().saturating_add(self.1.load(Ordering::SeqCst))
        }
        fn sleep(&self, stop: &CancelToken, timeout: Duration) {
            self.0.sleep(stop, timeout);
        }
    }

    #[test]
    fn a_directory_that_is_gone_or_does_not_answer_is_a_fault_until_it_is_back() {
        let (nodes, clock) = (Nodes::new(), Arc::new(AheadClock(SystemClock::new(), AtomicU64::new(0))));
        // Without its thread: nobody looks meanwhile, as when a look does not end.
        let watch = SharedDirWatch::new(nodes.node(None), Arc::<AheadClock>::clone(&clock));
        assert_eq!((watch.fault(), watch.found()), (None, Ok(())));
        assert!(watch.space().is_some_and(|space| space.total_bytes > 0));
        clock.1.store(11_000, Ordering::SeqCst);
        assert!(watch.fault().is_some_and(|reason| reason.contains("not answered for 11 s")));
        watch.look();
        assert_eq!(watch.fault(), None);
        let (beacon, away) = (nodes.home.path().join(BEACON_FILE), nodes.home.path().join("away"));
        fs::rename(&beacon, &away).unwrap();
        watch.look();
        assert!(watch.fault().is_some_and(|reason| reason.contains("takes no jobs")));
        assert_eq!(watch.space(), None, "the disk below the mount point says nothing");
        fs::rename(&away, &beacon).unwrap();
        let never = CancelToken::new(Arc::clone(&nodes.clock));
        nodes.clock.sleep(&never, Duration::from_millis(LOOK_AGAIN_MS + 100));
        watch.look();
        assert_eq!(watch.fault(), None);
    }
}
