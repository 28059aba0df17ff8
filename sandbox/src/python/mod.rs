//! The host's `CPython`: finds it and says what a guest needs of it.
//!
//! Owns: the search past shims (pyenv, asdf), the demand for 3.9, the paths that stay open.
//! Refuses: interpreters that cannot install the filters (no ctypes). Python is off then; JavaScript stays.

mod host;
mod spec;
mod zygote;

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags};
use serde::Deserialize;

use crate::broker::{new_command, wait_until_readable};
use crate::guest::memory_file;
use crate::level::Level;
use crate::modules;
use crate::policy::{Access, FileRule};
pub(crate) use host::{Host, Python, is_module_name};
pub(crate) use spec::ZygoteSpec;
pub(crate) use zygote::become_zygote;

/// The program that describes an interpreter.
const PROBE: &str = concat!(include_str!("exercise.py"), include_str!("probe.py"));
/// The oldest version.
const OLDEST: (u32, u32) = (3, 9);
/// How long an interpreter may take to describe itself; a shim may be slow.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);
const PROBE_OUTPUT_BYTES: u64 = 1024 * 1024;
/// Where interpreters are beside `$PATH`.
const USUAL_DIRECTORIES: &[&str] = &["/usr/local/bin", "/usr/bin", "/bin"];
/// Their names, the plain one first.
const NAMES: &[&str] =
    &["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python3.10", "python3.9"];
/// What the loader reads at every start.
const LOADER_CACHE: &str = "/etc/ld.so.cache";
const ZONES: &str = "/usr/share/zoneinfo";

/// What is known about the interpreter in use.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Interpreter {
    version: (u32, u32, u32),
    implementation: String,
    path: PathBuf,
    library_trees: Vec<PathBuf>,
    site_trees: Vec<PathBuf>,
    shared_libraries: Vec<PathBuf>,
    /// What the extra modules need besides.
    extra_libraries: Vec<PathBuf>,
    /// The address space that they take before a program starts.
    extra_bytes: u64,
    loader: PathBuf,
    extensions: Vec<String>,
    missing: Vec<String>,
    has_ctypes: bool,
}

impl Interpreter {
    /// Finds one, or says why each candidate does not do.
    pub(crate) fn find(python: Option<&Path>, extra: &[String]) -> Result<Self, String> {
        let candidates = python.map_or_else(candidates, |path| vec![path.to_owned()]);
        let mut reasons = Vec::new();
        for path in candidates {
            match describe(&path, extra).and_then(Self::accept) {
                Ok(found) => return Ok(found),
                Err(reason) => reasons.push(format!("'{}': {reason}", path.display())),
            }
        }
        if reasons.is_empty() {
            reasons.push("no python3 on the search path".to_owned());
        }
        Err(reasons.join("; "))
    }

    fn accept(self) -> Result<Self, String> {
        let (major, minor, _) = self.version;
        if self.implementation != "cpython" {
            return Err(format!("it is {}, not CPython", self.implementation));
        }
        if (major, minor) < OLDEST {
            return Err(format!("version {} is older than {}.{}", self.version(), OLDEST.0, OLDEST.1));
        }
        if !self.has_ctypes {
            return Err("it lacks ctypes, which the filters are installed with".to_owned());
        }
        if !self.missing.is_empty() {
            return Err(format!("extra_allowed_modules cannot be imported: {}", self.missing.join(", ")));
        }
        if self.loader.as_os_str().is_empty() {
            return Err("its loader is not in its own memory map".to_owned());
        }
        Ok(self)
    }

    /// Its path, with every link and shim resolved.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its version, `3.11.7`.
    pub(crate) fn version(&self) -> String {
        let (major, minor, micro) = self.version;
        format!("{major}.{minor}.{micro}")
    }

    /// The address space that extra modules take before a program starts: `OpenBLAS` alone may map 128 MiB.
    pub(crate) const fn extra_bytes(&self) -> u64 {
        self.extra_bytes
    }

    /// The paths that stay open for a run.
    pub(crate) fn files(&self, level: Level, own: Option<&Path>, with_site: bool) -> Vec<FileRule> {
        let rule = |path: &Path, access| FileRule { path: path.to_owned(), access };
        let libraries = self.shared_libraries.iter();
        let mut files: Vec<FileRule> = libraries.map(|path| rule(path, Access::ReadFile)).collect();
        files.extend(self.library_trees.iter().map(|path| rule(path, Access::ReadTree)));
        if with_site {
            // Hundreds of them, often, and nearly all in the packages themselves: an order must stay small.
            let is_inside = |path: &&PathBuf| self.site_trees.iter().any(|tree| path.starts_with(tree));
            let outside = self.extra_libraries.iter().filter(|path| !is_inside(path));
            files.extend(outside.map(|path| rule(path, Access::ReadFile)));
            files.extend(self.site_trees.iter().map(|path| rule(path, Access::ReadTree)));
        }
        // Packages that know time zones may read them there (Debian's pytz, say).
        if level == Level::Lenient || with_site {
            files.push(rule(Path::new(ZONES), Access::ReadTree));
        }
        if level == Level::Lenient {
            files.push(rule(Path::new("/dev/urandom"), Access::ReadFile));
            files.push(rule(Path::new("/dev/null"), Access::ReadWriteFile));
            files.extend(own.map(|path| rule(path, Access::OwnTree)));
        }
        // A host may lack the zones, or a library that only the description pulled in.
        files.retain(|file| file.path.exists());
        files
    }

    /// The zygote of a level, with so many modules more.
    pub(crate) fn zygote(&self, level: Level, extra: &[String], landlock_abi: u32) -> ZygoteSpec {
        let mut warm = modules::warm(level, extra);
        if level == Level::Lenient {
            warm.extend(self.extensions.iter().cloned());
        }
        let allowed = modules::allowed(level).iter().map(|&name| name.to_owned());
        let mut files = self.files(level, None, !extra.is_empty());
        for path in [&self.path, &self.loader] {
            files.push(FileRule { path: path.clone(), access: Access::ExecuteFile });
        }
        // What the loader reads at every start, where there is one.
        let cache = PathBuf::from(LOADER_CACHE);
        files.extend(cache.exists().then_some(FileRule { path: cache, access: Access::ReadFile }));
        ZygoteSpec {
            id: 0,
            level,
            interpreter: self.path.clone(),
            files,
            landlock_abi,
            allowed_modules: allowed.chain(extra.iter().cloned()).collect(),
            refused_builtins: modules::refused_builtins(level),
            warm_modules: warm,
            extra_path: if extra.is_empty() { Vec::new() } else { self.site_trees.clone() },
        }
        .with_id()
    }
}

/// Every python3 that a shell would find, and the usual ones, without duplicates.
fn candidates() -> Vec<PathBuf> {
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> =
        std::env::split_paths(&search_path).filter(|path| path.is_absolute()).collect();
    directories.extend(USUAL_DIRECTORIES.iter().map(PathBuf::from));
    let mut found: Vec<PathBuf> = Vec::new();
    for name in NAMES {
        for directory in &directories {
            let path = directory.join(name);
            if path.is_file() && !found.contains(&path) {
                found.push(path);
            }
        }
    }
    found
}

/// Lets an interpreter (or the shim before it) describe itself. This is the host's own program: it runs unconfined.
fn describe(path: &Path, extra: &[String]) -> Result<Interpreter, String> {
    let words = |error: std::io::Error| error.to_string();
    let (stdout, stderr) = (memory_file(&[]).map_err(words)?, memory_file(&[]).map_err(words)?);
    let mut child = new_command(path)
        .args(["-I", "-S", "-B", "-X", "utf8", "-c", PROBE])
        .args(extra)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::from(stdout.try_clone().map_err(words)?))
        .stderr(Stdio::from(stderr.try_clone().map_err(words)?))
        .spawn()
        .map_err(words)?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pidfd = pid.map(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()));
    let has_ended = pidfd
        .is_some_and(|pidfd| pidfd.is_ok_and(|pidfd| wait_until_readable(pidfd, PROBE_TIMEOUT) == Ok(true)));
    if !has_ended {
        // It may end in this very moment.
        child.kill().ok();
    }
    let status = child.wait().map_err(words)?;
    if !status.success() {
        let said = text_of(stderr).map_err(words)?;
        return Err(said.trim().lines().last().unwrap_or("it failed without a word").to_owned());
    }
    serde_json::from_str(&text_of(stdout).map_err(words)?)
        .map_err(|error| format!("it does not describe itself: {error}"))
}

fn text_of(file: std::os::fd::OwnedFd) -> std::io::Result<String> {
    let mut file = File::from(file);
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(PROBE_OUTPUT_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
