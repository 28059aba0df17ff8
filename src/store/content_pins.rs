//! Pins of contents: each protects a content between its name and its row, on all nodes that share the
//! directory.

use crate::domain::stored_file::ContentDigest;
use crate::ports::{HeldLock, LockMode, SharedFiles, SharedLock, SharedLockKind, StoreError};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Contents that are about to get a row, and how many pins each has.
#[derive(Default)]
pub(super) struct ContentPins {
    counts: Mutex<HashMap<ContentDigest, usize>>,
    nodes: Option<NodePins>,
}

/// The locks that tell other nodes which contents are pinned here.
struct NodePins {
    files: Arc<dyn SharedFiles>,
    slots: Mutex<HashMap<u8, Arc<Mutex<PinnedSlot>>>>,
}

/// All pins of a slot share one lock, so that open files are few.
#[derive(Default)]
struct PinnedSlot {
    pins: usize,
    lock: Option<HeldLock>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lock_of(content: ContentDigest, mode: LockMode) -> SharedLock {
    SharedLock::of(SharedLockKind::Content, &content.to_string(), mode)
}

impl ContentPins {
    /// Pins that all nodes respect.
    pub(super) fn of_nodes(files: Arc<dyn SharedFiles>) -> Self {
        Self { counts: Mutex::default(), nodes: Some(NodePins { files, slots: Mutex::default() }) }
    }

    /// Protects a content. Waits for a removal that is under way.
    pub(super) fn pin(self: &Arc<Self>, content: ContentDigest) -> Result<ContentPin, StoreError> {
        if let Some(nodes) = &self.nodes {
            nodes.pin(content)?;
        }
        let mut counts = lock(&self.counts);
        let count = counts.entry(content).or_default();
        *count = count.saturating_add(1);
        Ok(ContentPin { pins: Arc::clone(self), content })
    }

    fn unpin(&self, content: ContentDigest) {
        let mut counts = lock(&self.counts);
        if let Some(count) = counts.get_mut(&content) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&content);
            }
        }
        drop(counts);
        if let Some(nodes) = &self.nodes {
            nodes.unpin(content);
        }
    }

    /// Runs `work` with those of the contents that have no pin; none gets one meanwhile. A content whose slot
    /// is locked counts as pinned.
    pub(super) fn with_free(
        &self,
        contents: Vec<ContentDigest>,
        work: impl FnOnce(Vec<ContentDigest>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let counts = lock(&self.counts);
        let is_free = |content: &ContentDigest| !counts.contains_key(content);
        let mut free: Vec<ContentDigest> = contents.into_iter().filter(is_free).collect();
        let _locks = self.nodes.as_ref().map(|nodes| nodes.lock_free(&mut free)).transpose()?;
        if free.is_empty() { Ok(()) } else { work(free) }
    }
}

impl NodePins {
    fn slot(&self, slot: u8) -> Arc<Mutex<PinnedSlot>> {
        Arc::clone(lock(&self.slots).entry(slot).or_default())
    }

    fn pin(&self, content: ContentDigest) -> Result<(), StoreError> {
        let name = lock_of(content, LockMode::Shared);
        let slot = self.slot(name.slot);
        let mut slot = lock(&slot);
        if slot.pins == 0 {
            slot.lock = Some(self.files.lock(name).map_err(StoreError::FilesUnavailable)?);
        }
        slot.pins = slot.pins.saturating_add(1);
        Ok(())
    }

    fn unpin(&self, content: ContentDigest) {
        let slot = self.slot(lock_of(content, LockMode::Shared).slot);
        let mut slot = lock(&slot);
        slot.pins = slot.pins.saturating_sub(1);
        if slot.pins == 0 {
            slot.lock = None;
        }
    }

    /// Locks the slots of the contents, and leaves out those that cannot be locked now.
    fn lock_free(&self, contents: &mut Vec<ContentDigest>) -> Result<Vec<HeldLock>, StoreError> {
        let mut locks = BTreeMap::new();
        for content in contents.iter() {
            let name = lock_of(*content, LockMode::Exclusive);
            if let Entry::Vacant(free) = locks.entry(name.slot) {
                free.insert(self.files.try_lock(name).map_err(StoreError::FilesUnavailable)?);
            }
        }
        let is_locked = |content: &ContentDigest| {
            matches!(locks.get(&lock_of(*content, LockMode::Exclusive).slot), Some(Some(_)))
        };
        contents.retain(is_locked);
        Ok(locks.into_values().flatten().collect())
    }
}

/// Protects a content from removal.
pub(super) struct ContentPin {
    pins: Arc<ContentPins>,
    content: ContentDigest,
}

impl Drop for ContentPin {
    fn drop(&mut self) {
        self.pins.unpin(self.content);
    }
}
