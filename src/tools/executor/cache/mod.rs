//! Caches results of pure reads for a time, per user and project, or per job where its own files are read. A
//! write to the files that a read uses invalidates its result. Failures are not cached.

use super::registered_tool::RegisteredTool;
use crate::domain::id::{JobId, ProjectId, UserId};
use crate::domain::tool::FileAccess;
use crate::ports::ToolContext;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counters of writes. Two workspaces may share one: a write in one then also removes entries of the other.
const COUNTERS: usize = 1_024;
/// A result may take at most this fraction of all bytes: one part in eight.
const MAX_SHARE: usize = 8;
/// The approximate size of an entry without its texts.
const ENTRY_BYTES: usize = 256;

/// `tool_cache:` of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolCacheOptions {
    /// How long a result may be reused; 0 turns the cache off.
    pub ttl_s: u64,
    /// Maximum number of results.
    pub entries: usize,
    /// Maximum size of all results.
    pub bytes: usize,
    /// Whether other nodes may write the files that tools read here, unseen: then only results that read no
    /// file are reused. Follows from other keys.
    #[serde(skip)]
    pub shares_files: bool,
}

impl Default for ToolCacheOptions {
    fn default() -> Self {
        Self { ttl_s: 300, entries: 1_000, bytes: 8 * 1024 * 1024, shares_files: false }
    }
}

impl ToolCacheOptions {
    fn ttl_ms(&self) -> u64 {
        self.ttl_s.saturating_mul(1_000)
    }
}

/// Identifies equal calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CacheKey {
    user: UserId,
    project: Option<ProjectId>,
    /// The job, if the call reads the job's own files.
    job: Option<JobId>,
    tool: String,
    /// The version of the tool's source.
    version: u64,
    arguments: String,
}

impl CacheKey {
    /// `arguments` must be canonical JSON.
    pub(super) fn new(
        tool: &RegisteredTool,
        (arguments, files): (&str, FileAccess),
        context: &ToolContext,
    ) -> Self {
        Self {
            user: context.user,
            project: context.project_id,
            job: own_job(context).filter(|_| files != FileAccess::None),
            tool: tool.spec.name.to_string(),
            version: tool.version,
            arguments: arguments.to_owned(),
        }
    }

    fn bytes(&self) -> usize {
        self.tool.len().saturating_add(self.arguments.len()).saturating_add(ENTRY_BYTES)
    }
}

/// The number of writes of a workspace when a read began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WriteStamp(Option<u64>);

struct CachedResult {
    data: Value,
    bytes: usize,
    expires_at_ms: u64,
    order: u64,
    stamp: WriteStamp,
}

#[derive(Debug, Clone, Copy, Default)]
struct WriteCounter {
    changes: u64,
    running: u64,
}

#[derive(Default)]
struct CacheState {
    entries: HashMap<CacheKey, CachedResult>,
    /// Oldest first.
    order: BTreeMap<u64, CacheKey>,
    counters: Vec<WriteCounter>,
    bytes: usize,
    next_order: u64,
}

pub(super) struct ResultCache {
    options: ToolCacheOptions,
    state: Mutex<CacheState>,
}

impl ResultCache {
    pub(super) fn new(options: ToolCacheOptions) -> Self {
        let counters = vec![WriteCounter::default(); COUNTERS];
        let state = CacheState { counters, ..CacheState::default() };
        Self { options, state: Mutex::new(state) }
    }

    /// The cached result of a call, if it is still valid.
    pub(super) fn get(&self, key: &CacheKey, files: FileAccess, now_ms: u64) -> Option<Value> {
        let mut state = self.state();
        let stamp = state.stamp(key, files);
        let entry = state.entries.get(key)?;
        if now_ms < entry.expires_at_ms && entry.stamp == stamp && stamp.0.is_some() {
            return Some(entry.data.clone());
        }
        state.remove(key);
        None
    }

    /// The stamp for [`ResultCache::put`]. Call it before the read begins.
    pub(super) fn stamp(&self, key: &CacheKey, files: FileAccess) -> WriteStamp {
        if self.options.shares_files && files != FileAccess::None {
            return WriteStamp(None);
        }
        self.state().stamp(key, files)
    }

    /// Stores the result of a read that began at `stamp`, unless a write may have happened since.
    pub(super) fn put(
        &self,
        key: CacheKey,
        (files, stamp): (FileAccess, WriteStamp),
        data: &Value,
        now_ms: u64,
    ) {
        let bytes = key.bytes().saturating_add(data.to_string().len());
        if self.options.ttl_ms() == 0 || bytes > self.options.bytes / MAX_SHARE {
            return;
        }
        let mut state = self.state();
        if stamp.0.is_none() || state.stamp(&key, files) != stamp {
            return;
        }
        state.remove(&key);
        let order = state.next_order;
        state.next_order = order.saturating_add(1);
        let expires_at_ms = now_ms.saturating_add(self.options.ttl_ms());
        state.bytes = state.bytes.saturating_add(bytes);
        state.order.insert(order, key.clone());
        state.entries.insert(key, CachedResult { data: data.clone(), bytes, expires_at_ms, order, stamp });
        while state.entries.len() > self.options.entries || state.bytes > self.options.bytes {
            let Some(oldest) = state.order.values().next().cloned() else { break };
            state.remove(&oldest);
        }
    }

    /// Begins a write in the workspace, which ends when the guard is dropped. Meanwhile file reads are
    /// neither served nor stored.
    pub(super) fn writing(&self, context: &ToolContext) -> WriteGuard<'_> {
        let at = counter_index(context.user, context.project_id, own_job(context));
        self.state().update_counter(at, |running| running.saturating_add(1));
        WriteGuard { cache: self, at }
    }

    fn state(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheState {
    /// Holds `None` during a write.
    fn stamp(&self, key: &CacheKey, files: FileAccess) -> WriteStamp {
        if files == FileAccess::None {
            return WriteStamp(Some(0));
        }
        let counter =
            self.counters.get(counter_index(key.user, key.project, key.job)).copied().unwrap_or_default();
        WriteStamp((counter.running == 0).then_some(counter.changes))
    }

    fn update_counter(&mut self, at: usize, change: impl FnOnce(u64) -> u64) {
        if let Some(counter) = self.counters.get_mut(at) {
            counter.changes = counter.changes.wrapping_add(1);
            counter.running = change(counter.running);
        }
    }

    fn remove(&mut self, key: &CacheKey) {
        if let Some(entry) = self.entries.remove(key) {
            self.order.remove(&entry.order);
            self.bytes = self.bytes.saturating_sub(entry.bytes);
        }
    }
}

/// The job whose own files a call uses.
fn own_job(context: &ToolContext) -> Option<JobId> {
    context.project_id.is_none().then_some(context.job)
}

fn counter_index(user: UserId, project: Option<ProjectId>, job: Option<JobId>) -> usize {
    let mut hasher = DefaultHasher::new();
    (user, project, job).hash(&mut hasher);
    usize::try_from(hasher.finish() % COUNTERS as u64).unwrap_or_default()
}

/// A write in progress.
pub(super) struct WriteGuard<'a> {
    cache: &'a ResultCache,
    at: usize,
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        self.cache.state().update_counter(self.at, |running| running.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests;
