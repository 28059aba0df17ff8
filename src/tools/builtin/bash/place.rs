//! Where a path leads, as far as the text says. Owns what nobody removes by accident; refuses to look at the disk: links
//! and the contents of variables are the kernel's to judge.

use super::word::{Piece, Word, render};
use std::path::Path;

/// System directories, of which nothing is a job's to remove.
const SYSTEM: [&str; 13] =
    ["bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "snap", "sys", "usr"];
/// Directories of which the first levels belong to the system: a project may lie further down.
const SHARED: [(&str, usize); 8] =
    [("home", 2), ("media", 1), ("mnt", 1), ("opt", 1), ("root", 1), ("run", 2), ("srv", 1), ("var", 2)];
/// What in `/dev` may be written to.
const HARMLESS: [&str; 14] = [
    "null", "zero", "full", "random", "urandom", "tty", "stdin", "stdout", "stderr", "fd", "pts", "shm",
    "tcp", "udp",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    /// The job's directory.
    Project,
    Root,
    Home,
    /// Above the job's or the home directory.
    Outside,
    /// Named by a variable, or left behind with `cd`.
    Unknown,
}

/// A directory or file, by where it begins and the names below that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    base: Base,
    names: Vec<String>,
}

impl Place {
    /// Below the job's directory; nothing above it is named by `subdirectory`.
    pub(super) fn project(subdirectory: Option<&Path>) -> Self {
        let names =
            subdirectory.into_iter().flat_map(Path::iter).map(|name| name.to_string_lossy().into_owned());
        Self { base: Base::Project, names: names.filter(|name| name != ".").collect() }
    }

    /// Where `cd` leads from here with these arguments.
    pub(super) fn after_cd(&self, arguments: &[Word]) -> Self {
        let target = arguments.iter().find(|word| word.text() == "-" || !word.text().starts_with('-'));
        match target {
            None => Self { base: Base::Home, names: Vec::new() },
            Some(word) if word.text() == "-" => Self::unknown(),
            Some(word) => self.to(word),
        }
    }

    /// Somewhere.
    pub(super) const fn unknown() -> Self {
        Self { base: Base::Unknown, names: Vec::new() }
    }

    /// Where the path leads from here.
    pub(super) fn to(&self, path: &Word) -> Self {
        match path.pieces.as_slice() {
            [Piece::Variable(name), after @ ..] if name == "HOME" => Self::home(&render(after)),
            [Piece::Variable(name), after @ ..] if name == "PWD" => {
                self.clone().down(render(after).trim_start_matches('/'))
            }
            [Piece::Literal(empty), after @ ..] if empty.is_empty() && !after.is_empty() => {
                self.to(&Word { pieces: after.to_vec() })
            }
            [Piece::Variable(_) | Piece::Unknown, ..] => Self::unknown(),
            [Piece::Plain(text), ..] if text.starts_with("~+") || text.starts_with("~-") => Self::unknown(),
            [Piece::Plain(text), ..] if text.starts_with('~') => {
                let text = path.text();
                Self::home(text.split_once('/').map_or("", |(_, below)| below))
            }
            _ => self.clone().down(&path.text()),
        }
    }

    fn home(below: &str) -> Self {
        Self { base: Base::Home, names: Vec::new() }.down(below.trim_start_matches('/'))
    }

    fn down(mut self, path: &str) -> Self {
        if path.starts_with('/') {
            self = Self { base: Base::Root, names: Vec::new() };
        }
        for name in path.split('/') {
            match name {
                ".." if self.names.pop().is_some() => {}
                ".." if matches!(self.base, Base::Project | Base::Home) => self.base = Base::Outside,
                "" | "." | ".." => {}
                name => self.names.push(name.to_owned()),
            }
        }
        self
    }

    /// Whether it is below the job's directory: a file of the project.
    pub(super) fn is_of_project(&self) -> bool {
        self.base == Base::Project
    }

    /// What makes it nobody's to remove; a pattern for all that is in a directory stands for the directory.
    pub(super) fn protected(&self) -> Option<String> {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let names = match names.as_slice() {
            [above @ .., last] if is_everything(last) => above,
            all => all,
        };
        match (self.base, names) {
            (Base::Outside, _) => Some("what lies above the job's directory".to_owned()),
            (Base::Home, []) => Some("the home directory".to_owned()),
            (Base::Root, []) => Some("the root directory".to_owned()),
            (Base::Root, [top, below @ ..]) if is_of_system(top, below.len()) => {
                Some(format!("the system directory /{}", names.join("/")))
            }
            _ => None,
        }
    }

    /// The device that it is, if writing to it could cost a disk.
    pub(super) fn device(&self) -> Option<String> {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        match (self.base, names.as_slice()) {
            (Base::Root, ["dev", device, ..]) if !HARMLESS.contains(device) && !device.starts_with('$') => {
                Some(format!("/{}", names.join("/")))
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
