//! Caches results of pure reads: for a time, per user and project, and until something may have written what
//! they read. Failures are not cached.

use super::catalogue::RegisteredTool;
use crate::domain::id::{ProjectId, UserId};
use crate::domain::tool::FileAccess;
use crate::ports::ToolContext;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counters of writes. Two projects may share one: a write in one then costs the other its entries, never the
/// truth.
const COUNTERS: usize = 1_024;
/// One result takes this part of all bytes at most.
const LARGEST_PART: usize = 8;
/// What an entry takes beside its texts, about, bytes.
const ENTRY_BYTES: usize = 256;

/// `tool_cache:` in the configuration: the options of all entries together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolCacheOptions {
    /// How long a result may stand for a new one, seconds; 0: never.
    pub ttl_s: u64,
    /// Results.
    pub entries: usize,
    /// The same, bytes.
    pub bytes: usize,
}

impl Default for ToolCacheOptions {
    fn default() -> Self {
        Self { ttl_s: 300, entries: 1_000, bytes: 8 * 1024 * 1024 }
    }
}

impl ToolCacheOptions {
    fn ttl_ms(&self) -> u64 {
        self.ttl_s.saturating_mul(1_000)
    }
}

/// Whose call of what.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CacheKey {
    user: UserId,
    project: Option<ProjectId>,
    tool: String,
    /// A tool that its source has made anew is another one.
    version: u64,
    arguments: String,
}

impl CacheKey {
    /// Of a call with these arguments, in their canonical spelling.
    pub(super) fn new(tool: &RegisteredTool, arguments: &str, context: &ToolContext) -> Self {
        Self {
            user: context.user,
            project: context.project_id,
            tool: tool.spec.name.to_string(),
            version: tool.version,
            arguments: arguments.to_owned(),
        }
    }

    fn bytes(&self) -> usize {
        self.tool.len().saturating_add(self.arguments.len()).saturating_add(ENTRY_BYTES)
    }
}

/// The writes that a project had seen when a read began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WriteStamp(Option<u64>);

struct CachedResult {
    data: Value,
    bytes: usize,
    until_ms: u64,
    order: u64,
    stamp: WriteStamp,
}

/// The writes of a project.
#[derive(Debug, Clone, Copy, Default)]
struct WriteCounter {
    begun_or_ended: u64,
    under_way: u64,
}

struct CacheState {
    entries: HashMap<CacheKey, CachedResult>,
    /// Oldest first, which is also who ends first.
    order: BTreeMap<u64, CacheKey>,
    counters: Vec<WriteCounter>,
    bytes: usize,
    next: u64,
}

/// All results that are kept.
pub(super) struct ResultCache {
    options: ToolCacheOptions,
    state: Mutex<CacheState>,
}

impl ResultCache {
    /// An empty one.
    pub(super) fn new(options: ToolCacheOptions) -> Self {
        let state = CacheState {
            entries: HashMap::new(),
            order: BTreeMap::new(),
            counters: vec![WriteCounter::default(); COUNTERS],
            bytes: 0,
            next: 0,
        };
        Self { options, state: Mutex::new(state) }
    }

    /// What stands for a new result, if anything does, of a tool that uses files like this.
    pub(super) fn get(&self, key: &CacheKey, files: FileAccess, now_ms: u64) -> Option<Value> {
        let mut state = self.state();
        let stamp = state.stamp(key, files);
        let entry = state.entries.get(key)?;
        if now_ms < entry.until_ms && entry.stamp == stamp && stamp.0.is_some() {
            return Some(entry.data.clone());
        }
        state.remove(key);
        None
    }

    /// To be taken before a read begins.
    pub(super) fn stamp(&self, key: &CacheKey, files: FileAccess) -> WriteStamp {
        self.state().stamp(key, files)
    }

    /// Keeps what a read that began at `stamp` came to, unless something may have been written since.
    pub(super) fn put(
        &self,
        key: CacheKey,
        (files, stamp): (FileAccess, WriteStamp),
        data: &Value,
        now_ms: u64,
    ) {
        let bytes = key.bytes().saturating_add(data.to_string().len());
        if self.options.ttl_ms() == 0 || bytes > self.options.bytes / LARGEST_PART {
            return;
        }
        let mut state = self.state();
        if stamp.0.is_none() || state.stamp(&key, files) != stamp {
            return;
        }
        state.remove(&key);
        let order = state.next;
        state.next = order.saturating_add(1);
        let until_ms = now_ms.saturating_add(self.options.ttl_ms());
        state.bytes = state.bytes.saturating_add(bytes);
        state.order.insert(order, key.clone());
        state.entries.insert(key, CachedResult { data: data.clone(), bytes, until_ms, order, stamp });
        while state.entries.len() > self.options.entries || state.bytes > self.options.bytes {
            let Some(oldest) = state.order.values().next().cloned() else { break };
            state.remove(&oldest);
        }
    }

    /// Something begins that may write what this user's tools read in this project; it ends when the answer
    /// is dropped. Nothing is served or kept of what is read meanwhile.
    pub(super) fn writing(&self, context: &ToolContext) -> WriteGuard<'_> {
        let at = counter_of(context.user, context.project_id);
        self.state().count(at, |under_way| under_way.saturating_add(1));
        WriteGuard { cache: self, at }
    }

    fn state(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheState {
    /// `None`: something is being written right now.
    fn stamp(&self, key: &CacheKey, files: FileAccess) -> WriteStamp {
        if files == FileAccess::None {
            return WriteStamp(Some(0));
        }
        let counter = self.counters.get(counter_of(key.user, key.project)).copied().unwrap_or_default();
        WriteStamp((counter.under_way == 0).then_some(counter.begun_or_ended))
    }

    fn count(&mut self, at: usize, change: impl FnOnce(u64) -> u64) {
        if let Some(counter) = self.counters.get_mut(at) {
            counter.begun_or_ended = counter.begun_or_ended.wrapping_add(1);
            counter.under_way = change(counter.under_way);
        }
    }

    fn remove(&mut self, key: &CacheKey) {
        if let Some(entry) = self.entries.remove(key) {
            self.order.remove(&entry.order);
            self.bytes = self.bytes.saturating_sub(entry.bytes);
        }
    }
}

fn counter_of(user: UserId, project: Option<ProjectId>) -> usize {
    let mut hasher = DefaultHasher::new();
    (user, project).hash(&mut hasher);
    usize::try_from(hasher.finish() % COUNTERS as u64).unwrap_or_default()
}

/// A write under way.
pub(super) struct WriteGuard<'a> {
    cache: &'a ResultCache,
    at: usize,
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        self.cache.state().count(self.at, |under_way| under_way.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests;
