//! Finds the host's `CPython` and the paths that guests need of it.
//!
//! The search resolves shims (pyenv, asdf). An interpreter older than 3.9, or without ctypes, which installs
//! the filters, is not accepted: Python is off then.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;

use super::modules;
use crate::level::Level;
use crate::memory_file::memory_file;
use crate::options::ExtraModules;
use crate::policy::{PathAccess, PathRule};
use crate::process::{end_child, new_command, wait_for_exit};
use crate::zygote::ZygoteSpec;

/// Without these variables, numeric libraries start threads at import.
pub(crate) const ONE_THREAD: [(&str, &str); 3] =
    [("OPENBLAS_NUM_THREADS", "1"), ("OMP_NUM_THREADS", "1"), ("MKL_NUM_THREADS", "1")];
/// The program that describes an interpreter.
const PROBE: &str = concat!(include_str!("exercise.py"), include_str!("probe.py"));
/// The oldest version.
const OLDEST: (u32, u32) = (3, 9);
/// How long an interpreter may take to describe itself. A shim may be slow.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);
const PROBE_OUTPUT_BYTES: u64 = 1024 * 1024;
/// Where interpreters are besides `$PATH`.
const USUAL_DIRECTORIES: &[&str] = &["/usr/local/bin", "/usr/bin", "/bin"];
/// Their names, the first one preferred.
const NAMES: &[&str] =
    &["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python3.10", "python3.9"];
/// The loader reads this file at every start.
const LOADER_CACHE: &str = "/etc/ld.so.cache";
const ZONES: &str = "/usr/share/zoneinfo";

/// The description of an interpreter.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PythonInterpreter {
    version: (u32, u32, u32),
    implementation: String,
    path: PathBuf,
    library_trees: Vec<PathBuf>,
    site_trees: Vec<PathBuf>,
    shared_libraries: Vec<PathBuf>,
    /// Libraries that the extra modules need in addition.
    extra_libraries: Vec<PathBuf>,
    /// The address space that the extra modules use before a program starts.
    extra_bytes: u64,
    loader: PathBuf,
    extensions: Vec<String>,
    /// Extra modules that cannot be imported, with the reasons.
    missing: Vec<(String, String)>,
    has_ctypes: bool,
}

impl PythonInterpreter {
    /// Finds one. The error lists why each candidate is not suitable.
    pub(crate) fn find(python: Option<&Path>, extra: &[String]) -> Result<Self, String> {
        let candidates = python.map_or_else(candidates, |path| vec![path.to_owned()]);
        let mut reasons = Vec::new();
        for path in candidates {
            let described = describe(&path, extra).or_else(|reason| without_harmful(&path, extra, reason));
            match described.and_then(Self::check) {
                Ok(found) => return Ok(found),
                Err(reason) => reasons.push(format!("'{}': {reason}", path.display())),
            }
        }
        if reasons.is_empty() {
            reasons.push("no python3 on the search path".to_owned());
        }
        Err(reasons.join("; "))
    }

    fn check(self) -> Result<Self, String> {
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
        if self.loader.as_os_str().is_empty() {
            return Err("its loader is not in its own memory map".to_owned());
        }
        Ok(self)
    }

    /// Its path, with links and shims resolved.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its version, such as `3.11.7`.
    pub(crate) fn version(&self) -> String {
        let (major, minor, micro) = self.version;
        format!("{major}.{minor}.{micro}")
    }

    /// The address space that extra modules use before a program starts. `OpenBLAS` alone may map 128 MiB.
    pub(crate) const fn extra_bytes(&self) -> u64 {
        self.extra_bytes
    }

    /// The paths that landlock allows to a run.
    pub(crate) fn files(&self, level: Level, own_dir: Option<&Path>, with_site: bool) -> Vec<PathRule> {
        let rule = |path: &Path, access| PathRule { path: path.to_owned(), access };
        // Nearly all libraries are inside the trees, whose rules allow them. The paths of a memory map
        // have no symbolic links.
        let is_outside = |path: &&PathBuf| !self.library_trees.iter().any(|tree| path.starts_with(tree));
        let libraries = self.shared_libraries.iter().filter(is_outside);
        let mut files: Vec<PathRule> = libraries.map(|path| rule(path, PathAccess::ReadFile)).collect();
        files.extend(self.library_trees.iter().map(|path| rule(path, PathAccess::ReadTree)));
        if with_site {
            // Often hundreds, nearly all inside the site directories, which have rules anyway: a request must
            // stay small.
            let is_inside = |path: &&PathBuf| self.site_trees.iter().any(|tree| path.starts_with(tree));
            let outside = self.extra_libraries.iter().filter(|path| !is_inside(path));
            files.extend(outside.map(|path| rule(path, PathAccess::ReadFile)));
            files.extend(self.site_trees.iter().map(|path| rule(path, PathAccess::ReadTree)));
        }
        // Packages for time zones may read them there (Debian's pytz).
        if level == Level::Lenient || with_site {
            files.push(rule(Path::new(ZONES), PathAccess::ReadTree));
        }
        if level == Level::Lenient {
            files.push(rule(Path::new("/dev/urandom"), PathAccess::ReadFile));
            files.push(rule(Path::new("/dev/null"), PathAccess::ReadWriteFile));
            files.extend(own_dir.map(|path| rule(path, PathAccess::OwnTree)));
        }
        // A host may lack the zones, or a library that only the description loaded.
        files.retain(|file| file.path.exists());
        files
    }

    /// The extra modules that cannot be imported, with the reasons.
    pub(crate) fn missing_modules(&self) -> &[(String, String)] {
        &self.missing
    }

    /// The specification of a level's zygote with these extra modules.
    pub(crate) fn zygote_spec(
        &self,
        level: Level,
        all_extra: &ExtraModules,
        landlock_abi: u32,
    ) -> ZygoteSpec {
        let extra = &all_extra.of(level)[..];
        let modules_of = |level: Level| [modules::allowed(level), all_extra.of(level)].concat();
        let wider = Level::FOR_CODE.into_iter().filter(|other| *other > level);
        let mut warm = modules::warm(level, extra);
        if level == Level::Lenient {
            warm.extend(self.extensions.iter().cloned());
        }
        let mut files = self.files(level, None, !extra.is_empty());
        for path in [&self.path, &self.loader] {
            files.push(PathRule { path: path.clone(), access: PathAccess::ExecuteFile });
        }
        // A host may lack the cache.
        let cache = PathBuf::from(LOADER_CACHE);
        files.extend(cache.exists().then_some(PathRule { path: cache, access: PathAccess::ReadFile }));
        ZygoteSpec {
            id: 0,
            level,
            interpreter: self.path.clone(),
            files,
            landlock_abi,
            allowed_modules: [modules::allowed(level).as_slice(), extra].concat(),
            refused_builtins: modules::refused_builtins(level),
            wider_levels: wider.map(|level| (level, modules_of(level))).collect(),
            missing_modules: self.missing.clone(),
            warm_modules: warm,
            extra_path: if extra.is_empty() { Vec::new() } else { self.site_trees.clone() },
        }
        .with_id()
    }
}

/// The description without the modules whose import ends the interpreter, or the first error.
fn without_harmful(path: &Path, extra: &[String], reason: String) -> Result<PythonInterpreter, String> {
    if extra.is_empty() {
        return Err(reason);
    }
    let (mut good, mut missing) = (Vec::new(), Vec::new());
    for module in extra {
        match describe(path, std::slice::from_ref(module)) {
            Ok(_) => good.push(module.clone()),
            Err(reason) => missing.push((module.clone(), reason)),
        }
    }
    let mut found = describe(path, &good).map_err(|_| reason)?;
    found.missing.extend(missing);
    Ok(found)
}

/// Every `python3` in `$PATH` and the usual directories, without duplicates.
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

/// Runs an interpreter (or a shim) that describes itself. It is the host's own program and runs unconfined.
fn describe(path: &Path, extra: &[String]) -> Result<PythonInterpreter, String> {
    let text = |error: std::io::Error| error.to_string();
    let (stdout, stderr) = (memory_file(&[]).map_err(text)?, memory_file(&[]).map_err(text)?);
    let child = new_command(path)
        .args(["-I", "-S", "-B", "-X", "utf8", "-c", PROBE])
        .args(extra)
        .envs(ONE_THREAD)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::from(stdout.try_clone().map_err(text)?))
        .stderr(Stdio::from(stderr.try_clone().map_err(text)?))
        .spawn()
        .map_err(text)?;
    wait_for_exit(&child, PROBE_TIMEOUT);
    let status = end_child(child).ok_or("it cannot be ended")?;
    if !status.success() {
        let output = read_text(stderr).map_err(text)?;
        return Err(output.trim().lines().last().unwrap_or("it failed without a word").to_owned());
    }
    serde_json::from_str(&read_text(stdout).map_err(text)?)
        .map_err(|error| format!("it does not describe itself: {error}"))
}

fn read_text(file: std::os::fd::OwnedFd) -> std::io::Result<String> {
    let mut file = File::from(file);
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(PROBE_OUTPUT_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
