//! Tools written in JavaScript: every `*.js` of `tools_dir` that exports one. One thread watches
//! the directory; callers read the tools of its last scan.

mod description;
mod error;
mod files;
mod handler_run;
mod host;
mod permission;
mod program;
mod registry;
mod tool;
mod watcher;

use crate::ports::{CancelReason, CancelToken, Clock, Tool, ToolNamespace, ToolSource, Web, WorkspaceFiles};
use crate::tools::code::CodeRunner;
use registry::JavaScriptRegistry;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use tool::JavaScriptDeps;
use watcher::DirectoryWatcher;

/// The time between two scans of the directory.
const SCAN_PAUSE: Duration = Duration::from_secs(1);
/// How long after the start callers wait for the first scan. A job that goes on after a restart needs its
/// tools.
const FIRST_SCAN_TIMEOUT: Duration = Duration::from_secs(10);

/// The tools of the last scan of a directory.
pub struct JavaScriptTools {
    registry: Arc<JavaScriptRegistry>,
    cancel: CancelToken,
    clock: Arc<dyn Clock>,
    started_ms: u64,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl JavaScriptTools {
    /// Watches the directory, which may not exist yet, until it is dropped.
    pub fn start(
        dir: PathBuf,
        code: Arc<dyn CodeRunner>,
        (web, files): (Arc<dyn Web>, Arc<dyn WorkspaceFiles>),
        clock: Arc<dyn Clock>,
    ) -> io::Result<Self> {
        let (registry, cancel) =
            (Arc::new(JavaScriptRegistry::default()), CancelToken::new(Arc::clone(&clock)));
        let mut watcher = DirectoryWatcher::new(
            dir,
            JavaScriptDeps { code, web, files },
            Arc::clone(&registry),
            cancel.clone(),
        );
        let (watcher_cancel, scanned) = (cancel.clone(), Arc::clone(&registry));
        let (watcher_clock, started_ms) = (Arc::clone(&clock), clock.monotonic_ms());
        let watch = move || {
            while watcher_cancel.reason().is_none() {
                watcher.scan();
                scanned.set_filled();
                watcher_clock.sleep(&watcher_cancel, SCAN_PAUSE);
            }
        };
        let thread = Builder::new().name("tools_dir".to_owned()).spawn(watch)?;
        Ok(Self { registry, cancel, clock, started_ms, thread: Mutex::new(Some(thread)) })
    }

    /// Waits for the first scan.
    fn wait_for_first_scan(&self) {
        let since_start = Duration::from_millis(self.clock.monotonic_ms().saturating_sub(self.started_ms));
        self.registry.wait_until_filled(FIRST_SCAN_TIMEOUT.saturating_sub(since_start));
    }
}

impl ToolSource for JavaScriptTools {
    fn version(&self) -> u64 {
        self.wait_for_first_scan();
        self.registry.version()
    }

    fn namespaces(&self) -> Vec<ToolNamespace> {
        vec![ToolNamespace { beginning: String::new(), is_listed: true }]
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.wait_for_first_scan();
        self.registry.tools()
    }
}

impl Drop for JavaScriptTools {
    fn drop(&mut self) {
        self.cancel.cancel(CancelReason::Shutdown);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the watcher of tools_dir panicked");
        }
    }
}
