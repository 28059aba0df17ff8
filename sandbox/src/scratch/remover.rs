//! Removes private directories of ended runs in the background.
//!
//! One thread, started with the first directory and awaited when the sandbox is dropped. A run returns before
//! its directory is removed, so its contents cost neither the caller's time nor a slot. The trees take turns,
//! so a huge one delays no other. A caller that comes when many wait removes its own: nobody leaves trees
//! faster than they go.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;

use super::remove::{RemovalProgress, TreeRemoval};

/// Only the first failures are stored.
const MAX_FAILURES: usize = 16;
/// More trees of ended runs do not wait.
const MAX_WAITING: usize = 32;
/// The time for one tree before it is the next one's turn.
const TURN: Duration = Duration::from_millis(20);

/// How long a dropped sandbox waits for the removals: a disk may not answer.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(20);

/// Removes trees by turns.
#[derive(Debug, Default)]
pub(crate) struct ScratchRemover {
    has_thread: Mutex<bool>,
    trash: Arc<Trash>,
}

/// The trees that wait, shared with the thread.
#[derive(Debug, Default)]
struct Trash {
    state: Mutex<TrashState>,
    has_changed: Condvar,
}

#[derive(Debug, Default)]
struct TrashState {
    waiting: VecDeque<TreeRemoval>,
    failures: Vec<String>,
    is_closed: bool,
    /// The thread has ended: everything is gone, and no more comes.
    is_empty: bool,
}

impl ScratchRemover {
    /// Removes a tree later, or at once if too many wait or no thread can start.
    pub(crate) fn take(&self, tree: TreeRemoval) {
        let has_room = self.trash.lock().waiting.len() < MAX_WAITING;
        if has_room && self.has_thread() {
            self.trash.push(tree);
        } else {
            self.trash.remove(tree, Duration::MAX);
        }
    }

    /// The same for a tree that an earlier server left: those wait, however many there are.
    pub(crate) fn take_leftover(&self, path: PathBuf) {
        if self.has_thread() {
            self.trash.push(TreeRemoval::new(path));
        }
    }

    /// The trees that could not be removed, with the cause.
    pub(crate) fn failures(&self) -> Vec<String> {
        self.trash.lock().failures.clone()
    }

    /// Starts the thread if there is none.
    fn has_thread(&self) -> bool {
        let mut has_thread = self.has_thread.lock().unwrap_or_else(PoisonError::into_inner);
        if !*has_thread {
            let trash = Arc::clone(&self.trash);
            let builder = std::thread::Builder::new().name("sandbox-remover".to_owned());
            *has_thread = builder.spawn(move || trash.empty()).is_ok();
        }
        *has_thread
    }
}

impl Drop for ScratchRemover {
    fn drop(&mut self) {
        let has_thread = *self.has_thread.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.trash.lock();
        state.is_closed = true;
        self.trash.has_changed.notify_all();
        if has_thread {
            // The next start removes the rest.
            drop(self.trash.has_changed.wait_timeout_while(state, REMOVAL_TIMEOUT, |state| !state.is_empty));
        }
    }
}

impl Trash {
    fn push(&self, tree: TreeRemoval) {
        self.lock().waiting.push_back(tree);
        self.has_changed.notify_one();
    }

    /// Removes until all trees are gone and no more come.
    fn empty(&self) {
        while let Some(tree) = self.next() {
            if let Some(unfinished) = self.remove(tree, TURN) {
                self.push(unfinished);
            }
        }
        self.lock().is_empty = true;
        self.has_changed.notify_all();
    }

    fn next(&self) -> Option<TreeRemoval> {
        let may_wait = |state: &mut TrashState| state.waiting.is_empty() && !state.is_closed;
        let state = self.has_changed.wait_while(self.lock(), may_wait);
        state.unwrap_or_else(PoisonError::into_inner).waiting.pop_front()
    }

    /// Removes for a time. Returns what is not gone yet.
    fn remove(&self, mut tree: TreeRemoval, turn: Duration) -> Option<TreeRemoval> {
        match tree.remove_for(turn) {
            Ok(RemovalProgress::Unfinished) => return Some(tree),
            Ok(RemovalProgress::Done) => {}
            Err(Errno::NOENT) if tree.is_shared() => {}
            Err(error) => {
                let mut state = self.lock();
                if state.failures.len() < MAX_FAILURES {
                    state.failures.push(format!("cannot remove '{}': {error}", tree.path().display()));
                }
            }
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, TrashState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn dropping_the_remover_waits_for_all_removals_and_keeps_failures() {
        let home = tempfile::tempdir().unwrap();
        let remover = ScratchRemover::default();
        for name in ["a", "b"] {
            std::fs::create_dir_all(home.path().join(name).join("x/y")).unwrap();
            remover.take_leftover(home.path().join(name));
        }
        remover.take_leftover(home.path().join("removed by another server"));
        let held = std::fs::File::open(home.path()).unwrap();
        remover.take(TreeRemoval::holding(home.path().join("absent"), Some(held.into())));
        let trash = Arc::clone(&remover.trash);
        drop(remover);
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
        let failures = &trash.lock().failures;
        assert!(failures.len() == 1 && failures[0].contains("absent"), "{failures:?}");
    }

    /// A directory with this number of files.
    fn make_tree(path: &Path, files: usize) {
        std::fs::create_dir(path).unwrap();
        for number in 0..files {
            std::fs::File::create(path.join(number.to_string())).unwrap();
        }
    }

    #[test]
    fn p8_a_huge_tree_does_not_delay_the_removal_of_others() {
        let home = tempfile::tempdir().unwrap();
        let [huge, small] = ["huge", "small"].map(|name| home.path().join(name));
        make_tree(&huge, 40_000);
        make_tree(&small, 10);
        let remover = ScratchRemover::default();
        for path in [&huge, &small] {
            remover.take(TreeRemoval::new(path.clone()));
        }
        while small.exists() {
            std::thread::yield_now();
        }
        assert!(huge.exists(), "the small tree had to wait for the huge one");
        drop(remover);
        assert!(!huge.exists());
    }

    #[test]
    fn p8_trees_are_not_left_faster_than_they_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let remover = ScratchRemover::default();
        make_tree(&home.path().join("huge"), 40_000);
        let trees: Vec<_> = (0..2 * MAX_WAITING).map(|number| home.path().join(number.to_string())).collect();
        for path in &trees {
            make_tree(path, 100);
        }
        remover.take(TreeRemoval::new(home.path().join("huge")));
        for (taken, path) in (1..).zip(&trees) {
            remover.take(TreeRemoval::new(path.clone()));
            let left = std::fs::read_dir(home.path()).unwrap().count() - (trees.len() - taken);
            // Those that wait, and the one whose turn it is.
            assert!(left <= MAX_WAITING + 1, "{left} trees are left");
        }
    }
}
