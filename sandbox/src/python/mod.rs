//! The host's `CPython`: finds it and says what a guest needs of it.
//!
//! Owns: the search past shims (pyenv, asdf), the demand for 3.9, the paths that stay open.
//! Refuses: interpreters that cannot install the filters (no ctypes). Python is off then; JavaScript stays.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;

use crate::level::Level;
use crate::modules;
use crate::options::Options;
use crate::policy::{Access, FileRule};
use crate::program::Program;
use crate::request::PythonTask;
use crate::spawn;
use crate::watch::{self, Bounds};

/// The driver that runs inside the guest's interpreter.
const DRIVER: &str = include_str!("driver.py");
/// The program that describes an interpreter.
const PROBE: &str = include_str!("probe.py");
/// The oldest version.
const OLDEST: (u32, u32) = (3, 9);
/// How long an interpreter may take to describe itself; a shim may be slow.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);
const PROBE_OUTPUT_BYTES: usize = 1024 * 1024;
/// Where interpreters are beside `$PATH`.
const USUAL_DIRECTORIES: &[&str] = &["/usr/local/bin", "/usr/bin", "/bin"];
/// Their names, the plain one first.
const NAMES: &[&str] =
    &["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python3.10", "python3.9"];
/// A guest's whole environment. One thread: number libraries would start a pool while they warm up.
const ENVIRONMENT: [(&str, &str); 6] = [
    ("LANG", "C.UTF-8"),
    ("PATH", "/usr/bin:/bin"),
    ("TZ", "UTC"),
    ("OPENBLAS_NUM_THREADS", "1"),
    ("OMP_NUM_THREADS", "1"),
    ("MKL_NUM_THREADS", "1"),
];
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
    loader: PathBuf,
    extensions: Vec<String>,
    missing: Vec<String>,
    has_ctypes: bool,
}

impl Interpreter {
    /// Finds one, or says why each candidate does not do.
    pub(crate) fn find(options: &Options) -> Result<Self, String> {
        let extra = [
            options.extra_allowed_modules.of(Level::Standard),
            options.extra_allowed_modules.of(Level::Strict),
        ];
        let extra: Vec<&String> = extra.into_iter().flatten().collect();
        let candidates = options.python.clone().map_or_else(candidates, |path| vec![path]);
        let mut reasons = Vec::new();
        for path in candidates {
            match describe(&path, &extra).and_then(Self::accept) {
                Ok(found) => return Ok(found),
                Err(reason) => reasons.push(format!("'{}': {reason}", path.display())),
            }
        }
        if reasons.is_empty() {
            reasons.push("no python3 on the search path".to_owned());
        }
        Err(format!("Python is off: {}", reasons.join("; ")))
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

    /// The paths that stay open for a run.
    pub(crate) fn files(&self, level: Level, own: Option<&Path>, with_site: bool) -> Vec<FileRule> {
        let rule = |path: &Path, access| FileRule { path: path.to_owned(), access };
        let mut files = vec![rule(&self.path, Access::ExecuteFile), rule(&self.loader, Access::ExecuteFile)];
        let libraries = self.shared_libraries.iter().filter(|path| **path != self.loader);
        files.extend(libraries.map(|path| rule(path, Access::ReadFile)));
        files.extend(self.library_trees.iter().map(|path| rule(path, Access::ReadTree)));
        if with_site {
            files.extend(self.site_trees.iter().map(|path| rule(path, Access::ReadTree)));
        }
        files.push(rule(Path::new(LOADER_CACHE), Access::ReadFile));
        if level == Level::Lenient {
            files.push(rule(Path::new(ZONES), Access::ReadTree));
            files.push(rule(Path::new("/dev/urandom"), Access::ReadFile));
            files.push(rule(Path::new("/dev/null"), Access::ReadWriteFile));
            files.extend(own.map(|path| rule(path, Access::OwnTree)));
        }
        // A host may lack the cache, the zones, or a library that only the description pulled in.
        files.retain(|file| file.path.exists());
        files
    }

    /// The driver's assignment.
    pub(crate) fn task(&self, program: &Program, extra: &[String]) -> PythonTask {
        let level = program.level;
        let mut warm = modules::warm(level);
        if level == Level::Lenient {
            warm.extend(self.extensions.iter().cloned());
        }
        warm.extend(extra.iter().cloned());
        let allowed = modules::allowed(level).iter().map(|&name| name.to_owned());
        PythonTask {
            interpreter: self.path.clone(),
            code: program.code.clone(),
            language_check: program.language_check && level != Level::Lenient,
            allowed_modules: allowed.chain(extra.iter().cloned()).collect(),
            refused_builtins: modules::refused_builtins(level),
            warm_modules: warm,
            extra_path: if extra.is_empty() { Vec::new() } else { self.site_trees.clone() },
        }
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
fn describe(path: &Path, extra: &[&String]) -> Result<Interpreter, String> {
    let mut command: Command = spawn::new_command(path);
    command
        .args(["-I", "-S", "-B", "-X", "utf8", "-c", PROBE])
        .args(extra)
        .current_dir("/")
        .stdin(Stdio::null());
    let child = spawn::start(command).map_err(|error| error.to_string())?;
    let bounds = Bounds {
        timeout: PROBE_TIMEOUT,
        threads: 0,
        stdout_bytes: PROBE_OUTPUT_BYTES,
        stderr_bytes: PROBE_OUTPUT_BYTES,
        report_bytes: 0,
        cancel: &|| false,
    };
    let seen = watch::watch(child, &bounds, None).map_err(|error| error.to_string())?;
    if seen.ended.exit_code != Some(0) {
        let words = String::from_utf8_lossy(&seen.stderr.bytes);
        return Err(words.trim().lines().last().unwrap_or("it failed without a word").to_owned());
    }
    serde_json::from_slice(&seen.stdout.bytes)
        .map_err(|error| format!("it does not describe itself: {error}"))
}

/// Becomes the interpreter with the driver. Returns only if that failed.
pub(crate) fn become_interpreter(task: &PythonTask) -> std::io::Error {
    spawn::new_command(&task.interpreter)
        .args(["-I", "-S", "-B", "-X", "utf8", "-c", DRIVER])
        .env_clear()
        .envs(ENVIRONMENT)
        .exec()
}
