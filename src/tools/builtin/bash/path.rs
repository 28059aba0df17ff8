//! The target of a path in a command line, as far as its text shows. Links and variables are unknown here.

use super::command::{ShellWord, WordStart};
use std::path::Path;

/// System directories: a job may remove nothing in them.
const SYSTEM: [&str; 13] =
    ["bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "snap", "sys", "usr"];
/// Directories whose first levels belong to the system. A project may be deeper.
const SHARED: [(&str, usize); 8] =
    [("home", 2), ("media", 1), ("mnt", 1), ("opt", 1), ("root", 1), ("run", 2), ("srv", 1), ("var", 2)];
/// Entries of `/dev` that may be written.
const HARMLESS: [&str; 14] = [
    "null", "zero", "full", "random", "urandom", "tty", "stdin", "stdout", "stderr", "fd", "pts", "shm",
    "tcp", "udp",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathBase {
    Project,
    Root,
    Home,
    /// Above the job's or the home directory.
    Outside,
    /// Named by a variable, or unknown since a `cd`.
    Unknown,
}

/// A directory or file: the start of its path, and the names below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShellPath {
    base: PathBase,
    names: Vec<String>,
}

impl ShellPath {
    /// The job's directory, or one below it.
    pub(super) fn project(subdirectory: Option<&Path>) -> Self {
        let below = subdirectory.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
        Self { base: PathBase::Project, names: Vec::new() }.join_text(&below)
    }

    pub(super) const fn unknown() -> Self {
        Self { base: PathBase::Unknown, names: Vec::new() }
    }

    /// The directory after `cd` with these arguments.
    pub(super) fn after_cd(&self, arguments: &[ShellWord]) -> Self {
        match arguments.iter().find(|word| word.text == "-" || !word.text.starts_with('-')) {
            None => Self { base: PathBase::Home, names: Vec::new() },
            Some(word) if word.text == "-" => Self::unknown(),
            Some(word) => self.to(word),
        }
    }

    /// The target of a path, relative to this one.
    pub(super) fn to(&self, path: &ShellWord) -> Self {
        match path.start {
            WordStart::Expansion => Self::unknown(),
            WordStart::Home if path.text.starts_with("~+") || path.text.starts_with("~-") => Self::unknown(),
            WordStart::Home => {
                let below = path.text.split_once('/').map_or("", |(_, below)| below);
                Self { base: PathBase::Home, names: Vec::new() }.join_text(below)
            }
            WordStart::Text => self.to_text(&path.text),
        }
    }

    /// The target of a text without expansions.
    pub(super) fn to_text(&self, path: &str) -> Self {
        if path.starts_with('/') {
            Self { base: PathBase::Root, names: Vec::new() }.join_text(path)
        } else {
            self.clone().join_text(path)
        }
    }

    fn join_text(mut self, path: &str) -> Self {
        for name in path.split('/') {
            match name {
                ".." if self.names.pop().is_some() => {}
                ".." if matches!(self.base, PathBase::Project | PathBase::Home) => {
                    self.base = PathBase::Outside;
                }
                "" | "." | ".." => {}
                name => self.names.push(name.to_owned()),
            }
        }
        self
    }

    /// Whether it is a file of the project.
    pub(super) fn is_in_project(&self) -> bool {
        self.base == PathBase::Project
    }

    /// Why it must not be removed. A pattern for everything in a directory counts as the directory.
    pub(super) fn protected(&self) -> Option<String> {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let names = match names.as_slice() {
            [above @ .., last] if is_everything(last) => above,
            all => all,
        };
        match (self.base, names) {
            (PathBase::Outside, _) => Some("what lies above the job's directory".to_owned()),
            (PathBase::Home, []) => Some("the home directory".to_owned()),
            (PathBase::Root, []) => Some("the root directory".to_owned()),
            (PathBase::Root, [top, below @ ..]) if is_of_system(top, below.len()) => {
                Some(format!("the system directory /{}", names.join("/")))
            }
            _ => None,
        }
    }

    /// The device, if writing to it could destroy data.
    pub(super) fn device(&self) -> Option<String> {
        match (self.base, self.names.as_slice()) {
            (PathBase::Root, [dev, device, ..])
                if dev == "dev" && !HARMLESS.contains(&device.as_str()) && !device.starts_with('$') =>
            {
                Some(format!("/{}", self.names.join("/")))
            }
            _ => None,
        }
    }
}

fn is_of_system(top: &str, below: usize) -> bool {
    let is_shared = |(name, levels): &(&str, usize)| *name == top && below < *levels;
    SYSTEM.contains(&top) || SHARED.iter().any(is_shared) || top.contains(['*', '?', '[', '{'])
}

/// `*`, `.*`, `.[!.]*`, `{*,.*}` and the like.
fn is_everything(name: &str) -> bool {
    name.contains('*') && name.chars().all(|c| "*.?[]!^{},".contains(c))
}
