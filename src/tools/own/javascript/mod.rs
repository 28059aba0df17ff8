//! Tools written in JavaScript: every `*.js` of `tools_dir` that exports one. Owns the thread that looks at the directory and
//! the tools that it has found last; refuses to look, or to run anything, on the thread of whoever asks for them.

mod description;
mod errand;
mod host;
mod looker;
mod permission;
mod program;
mod shelf;
mod stamp;
mod tool;

use crate::ports::{CancelReason, CancelToken, Clock, ProjectFiles, Tool, ToolSource, Web};
use crate::tools::code::CodeRunner;
use looker::Looker;
use shelf::Shelf;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Between two looks at the directory.
const PAUSE: Duration = Duration::from_secs(1);
/// How long whoever asks first waits for the first look; nobody else ever waits.
const FIRST_LOOK: Duration = Duration::from_secs(2);

/// What running a file needs.
#[derive(Clone)]
pub(super) struct Means {
    /// Runs it.
    pub(super) code: Arc<dyn CodeRunner>,
    /// For `permissions.fetch`.
    pub(super) web: Arc<dyn Web>,
    /// For `permissions.files`.
    pub(super) files: Arc<dyn ProjectFiles>,
}

/// Why a file is no tool. The text is for the operator's log.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The disk refused.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It is no file that could be a tool.
    #[error("{0}")]
    Unfit(String),
    /// It ran, and described no tool.
    #[error("describes no tool: {0}")]
    Undescribed(String),
    /// It could not be run; that may be over soon.
    #[error("cannot be asked what it is, for now: {0}")]
    Unasked(String),
    /// It did not end in time; the machine may be the slow one.
    #[error("takes too long to describe itself: {0}")]
    Late(String),
    /// A part of its description cannot be.
    #[error("its {0}")]
    Bad(#[from] super::BadTool),
}

/// The tools of a directory, as they were found last.
pub struct JavaScriptTools {
    shelf: Arc<Shelf>,
    stop: CancelToken,
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
        let (shelf, stop) = (Arc::new(Shelf::default()), CancelToken::new(Arc::clone(&clock)));
        let mut looker = Looker::new(dir, Means { code, web, files }, Arc::clone(&shelf), stop.clone());
        let (stopped, seen) = (stop.clone(), Arc::clone(&shelf));
        let work = move || {
            while stopped.reason().is_none() {
                looker.look();
                seen.has_been_filled();
                clock.sleep(&stopped, PAUSE);
            }
        };
        let thread = Builder::new().name("tools_dir".to_owned()).spawn(work)?;
        Ok(Self { shelf, stop, has_been_asked: AtomicBool::new(false), thread: Mutex::new(Some(thread)) })
    }

    /// Whoever asks first finds the tools there, unless they take too long.
    fn wait_once(&self) {
        if !self.has_been_asked.swap(true, Ordering::AcqRel) {
            self.shelf.wait_until_filled(FIRST_LOOK);
        }
    }
}

impl ToolSource for JavaScriptTools {
    fn version(&self) -> u64 {
        self.wait_once();
        self.shelf.version()
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.wait_once();
        self.shelf.tools()
    }
}

impl Drop for JavaScriptTools {
    fn drop(&mut self) {
        // What it runs just now ends with it.
        self.stop.cancel(CancelReason::Shutdown);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that looks at tools_dir broke down");
        }
    }
}
