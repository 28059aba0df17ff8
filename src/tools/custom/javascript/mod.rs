//! Tools written in JavaScript: every `*.js` of `tools_dir` that exports one. A thread of its own watches
//! the directory; callers only read what it found last.

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

use crate::ports::{CancelReason, CancelToken, Clock, ProjectFiles, Tool, ToolSource, Web};
use crate::tools::code::CodeRunner;
use registry::JavaScriptRegistry;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use tool::JavaScriptDeps;
use watcher::DirectoryWatcher;

/// Between two looks at the directory.
const PAUSE: Duration = Duration::from_secs(1);
/// How long whoever asks first waits for the first look; nobody else ever waits.
const FIRST_LOOK: Duration = Duration::from_secs(2);

/// The tools of a directory, as they were found last.
pub struct JavaScriptTools {
    registry: Arc<JavaScriptRegistry>,
    cancel: CancelToken,
    has_been_asked: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl JavaScriptTools {
    /// The tools of this directory; it may come later. Looks until it is dropped.
    pub fn start(
        dir: PathBuf,
        code: Arc<dyn CodeRunner>,
        (web, files): (Arc<dyn Web>, Arc<dyn ProjectFiles>),
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
        let (stopped, seen) = (cancel.clone(), Arc::clone(&registry));
        let work = move || {
            while stopped.reason().is_none() {
                watcher.look();
                seen.has_been_filled();
                clock.sleep(&stopped, PAUSE);
            }
        };
        let thread = Builder::new().name("tools_dir".to_owned()).spawn(work)?;
        Ok(Self {
            registry,
            cancel,
            has_been_asked: AtomicBool::new(false),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Whoever asks first finds the tools there, unless they take too long.
    fn wait_once(&self) {
        if !self.has_been_asked.swap(true, Ordering::AcqRel) {
            self.registry.wait_until_filled(FIRST_LOOK);
        }
    }
}

impl ToolSource for JavaScriptTools {
    fn version(&self) -> u64 {
        self.wait_once();
        self.registry.version()
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.wait_once();
        self.registry.tools()
    }
}

impl Drop for JavaScriptTools {
    fn drop(&mut self) {
        // What it runs just now ends with it.
        self.cancel.cancel(CancelReason::Shutdown);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that looks at tools_dir broke down");
        }
    }
}
