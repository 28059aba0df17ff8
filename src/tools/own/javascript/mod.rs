//! Tools written in JavaScript: every `*.js` of `tools_dir` that exports one. Owns the look at the directory and which file
//! is which tool; a file that does not hold up is left out, with a warning, and never stands in the way of the others.
//! Refuses to run a file otherwise than in the sandbox, its description included.

mod description;
mod errand;
mod host;
mod permission;
mod program;
mod tool;

use crate::ports::{Clock, ProjectFiles, Tool, ToolSource, Web};
use crate::tools::code::CodeRunner;
use description::Description;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tool::JavaScriptTool;

/// The directory is looked at as often as this at most, milliseconds.
const LOOK_MS: u64 = 1_000;
/// Files of the directory.
const MOST_FILES: usize = 128;
/// A file, bytes.
const MOST_BYTES: u64 = 256 * 1024;

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
    /// A part of its description cannot be.
    #[error("its {0}")]
    Bad(#[from] super::BadTool),
}

/// The tools of a directory, as they stand.
pub struct JavaScriptTools {
    dir: PathBuf,
    means: Means,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    looked_at_ms: Option<u64>,
    version: u64,
    files: BTreeMap<String, Known>,
    /// What is wrong with the directory itself, as it was last told.
    complaint: Option<String>,
}

/// What is known of a file.
struct Known {
    stamp: Stamp,
    /// None: it is no tool.
    tool: Option<Arc<dyn Tool>>,
}

/// What changes when a file does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    modified_ns: (i64, i64),
    changed_ns: (i64, i64),
}

impl JavaScriptTools {
    /// The tools of this directory; it may come later.
    pub fn new(
        dir: PathBuf,
        code: Arc<dyn CodeRunner>,
        (web, files): (Arc<dyn Web>, Arc<dyn ProjectFiles>),
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { dir, means: Means { code, web, files }, clock, state: Mutex::default() }
    }

    /// Looks at the directory, unless it did so a moment ago.
    fn look(&self) -> std::sync::MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ms = self.clock.monotonic_ms();
        if state.looked_at_ms.is_some_and(|then_ms| now_ms.saturating_sub(then_ms) < LOOK_MS) {
            return state;
        }
        state.looked_at_ms = Some(now_ms);
        let found = match stamps(&self.dir) {
            Ok(found) => {
                state.complaint = None;
                found
            }
            Err(error) => {
                let complaint = error.to_string();
                if state.complaint.as_ref() != Some(&complaint) {
                    tracing::warn!(dir = %self.dir.display(), %error, "tools_dir cannot be used: it has no tools for now");
                    state.complaint = Some(complaint);
                }
                BTreeMap::new()
            }
        };
        self.take_over(&mut state, found);
        state
    }

    fn take_over(&self, state: &mut State, found: BTreeMap<String, Stamp>) {
        let before = state.files.len();
        state.files.retain(|name, _| found.contains_key(name));
        let mut has_changed = state.files.len() != before;
        for (name, stamp) in found {
            if state.files.get(&name).is_some_and(|known| known.stamp == stamp) {
                continue;
            }
            has_changed = true;
            let tool = match self.load(&name) {
                Ok(tool) => {
                    tracing::info!(file = name, tool = %tool.spec().name, "a tool of tools_dir is there");
                    Some(tool)
                }
                Err(error) => {
                    tracing::warn!(file = name, %error, "a file of tools_dir is left out");
                    None
                }
            };
            state.files.insert(name, Known { stamp, tool });
        }
        if has_changed {
            state.version = state.version.saturating_add(1);
        }
    }

    fn load(&self, name: &str) -> Result<Arc<dyn Tool>, Error> {
        let source = program::exporting(&read(&self.dir.join(name))?)?;
        let description = Description::of(&source, self.means.code.as_ref())?;
        Ok(Arc::new(JavaScriptTool::new(name, source, description, self.means.clone())))
    }
}

impl ToolSource for JavaScriptTools {
    fn version(&self) -> u64 {
        self.look().version
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.look().files.values().filter_map(|known| known.tool.clone()).collect()
    }
}

/// The files that may be tools. Whoever may write into the directory may run code with a tool's permissions.
fn stamps(dir: &Path) -> Result<BTreeMap<String, Stamp>, Error> {
    let about = fs::metadata(dir)?;
    if about.mode() & 0o002 != 0 {
        return Err(Error::Unfit("everybody may write into it; take that right away (chmod o-w)".to_owned()));
    }
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_script =
            !name.starts_with('.') && Path::new(&name).extension().is_some_and(|kind| kind == "js");
        if !is_script || !entry.file_type()?.is_file() {
            continue;
        }
        let about = entry.metadata()?;
        let stamp = Stamp {
            inode: about.ino(),
            bytes: about.len(),
            modified_ns: (about.mtime(), about.mtime_nsec()),
            changed_ns: (about.ctime(), about.ctime_nsec()),
        };
        found.insert(name, stamp);
        if found.len() > MOST_FILES {
            return Err(Error::Unfit(format!("it has more than {MOST_FILES} files that end in .js")));
        }
    }
    Ok(found)
}

fn read(path: &Path) -> Result<String, Error> {
    let open = File::options()
        .read(true)
        .custom_flags(
            i32::try_from((rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits()).unwrap_or(0),
        )
        .open(path)?;
    if !open.metadata()?.is_file() {
        return Err(Error::Unfit("is no regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    open.take(MOST_BYTES.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Error::Unfit(format!("has more than {MOST_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| Error::Unfit("is not UTF-8".to_owned()))
}
