//! The process that makes a supervised call: its memory, and the files that its arguments name.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::file_call::FileArguments;
use crate::sys;

/// The longest path with its NUL, as in the kernel.
const MAX_PATH_BYTES: usize = 4_096;
/// Memory is read up to the end of a page: the next one may be missing.
const PAGE_BYTES: u64 = 4_096;
/// A descriptor opened for nothing but to name a file.
pub(super) const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// Directories whose entries are the descriptors of the process that reads them.
const DESCRIPTOR_DIRS: [&str; 3] = ["/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"];

/// A thread that waits for its answer.
pub(super) struct CallingThread {
    thread: u32,
}

/// A file as the caller names it, with nothing of the caller's left to read.
#[derive(Debug)]
pub(super) enum NamedFile {
    /// A descriptor.
    Opened(OwnedFd),
    /// A path, and the directory where a relative one begins.
    Named { directory: Option<OwnedFd>, path: CString, flags: OFlags },
}

impl CallingThread {
    pub(super) fn new(thread: u32) -> Self {
        Self { thread }
    }

    /// Copies the location of a call: path and descriptors. The caller may change its own meanwhile.
    pub(super) fn named_file(&self, location: &FileArguments) -> Result<NamedFile, Errno> {
        let (directory, path, flags) = match *location {
            FileArguments::Descriptor(number) => return self.descriptor(number).map(NamedFile::Opened),
            FileArguments::Path { directory, address, flags } => (directory, self.read_path(address)?, flags),
        };
        if path.is_empty() {
            let is_allowed = flags.contains(AtFlags::EMPTY_PATH);
            return if is_allowed {
                self.directory(directory).map(NamedFile::Opened)
            } else {
                Err(Errno::NOENT)
            };
        }
        let follows = !flags.contains(AtFlags::SYMLINK_NOFOLLOW);
        if let Some(number) = descriptor_link(&path).filter(|_| follows) {
            return self.descriptor(number).map(NamedFile::Opened);
        }
        let is_absolute = path.as_bytes().starts_with(b"/");
        // Their links mean something else to the caller, and nothing in them is the caller's own.
        if [b"/proc/".as_slice(), b"/dev/"].iter().any(|foreign| path.as_bytes().starts_with(foreign)) {
            return Err(Errno::PERM);
        }
        let directory = if is_absolute { None } else { Some(self.directory(directory)?) };
        let flags = if follows { PATH_ONLY } else { PATH_ONLY | OFlags::NOFOLLOW };
        Ok(NamedFile::Named { directory, path, flags })
    }

    fn directory(&self, number: i32) -> Result<OwnedFd, Errno> {
        if number != CWD.as_raw_fd() {
            return self.descriptor(number);
        }
        rustix::fs::open(format!("/proc/{}/cwd", self.thread), PATH_ONLY, Mode::empty())
    }

    /// The file of one of its descriptors.
    fn descriptor(&self, number: i32) -> Result<OwnedFd, Errno> {
        let link = format!("/proc/{}/fd/{number}", self.thread);
        match rustix::fs::open(link, PATH_ONLY, Mode::empty()) {
            Err(Errno::NOENT) => Err(Errno::BADF),
            other => other,
        }
    }

    fn read_path(&self, address: u64) -> Result<CString, Errno> {
        let mut bytes = [0; MAX_PATH_BYTES];
        let mut filled = 0;
        while let Some(free) = bytes.get_mut(filled..).filter(|free| !free.is_empty()) {
            let start = address.checked_add(filled as u64).ok_or(Errno::FAULT)?;
            let in_page = usize::try_from(PAGE_BYTES - start % PAGE_BYTES).unwrap_or(1);
            let length = in_page.min(free.len());
            self.read_exactly(start, free.get_mut(..length).unwrap_or_default())?;
            filled += length;
            if let Ok(path) = CStr::from_bytes_until_nul(bytes.get(..filled).unwrap_or_default()) {
                return Ok(path.to_owned());
            }
        }
        Err(Errno::NAMETOOLONG)
    }

    /// Reads 64-bit numbers.
    pub(super) fn read_numbers<const N: usize>(&self, address: u64) -> Result<[i64; N], Errno> {
        let mut numbers = [0; N];
        for (number, offset) in numbers.iter_mut().zip((0_u64..).step_by(size_of::<i64>())) {
            let mut bytes = [0; size_of::<i64>()];
            self.read_exactly(address.checked_add(offset).ok_or(Errno::FAULT)?, &mut bytes)?;
            *number = i64::from_ne_bytes(bytes);
        }
        Ok(numbers)
    }

    fn read_exactly(&self, address: u64, bytes: &mut [u8]) -> Result<(), Errno> {
        match sys::read_memory(self.thread, address, bytes) {
            Ok(length) if length == bytes.len() => Ok(()),
            Ok(_) => Err(Errno::FAULT),
            // An error that the call itself could have: a hardened kernel lets nobody read, for example.
            Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::PERM)),
        }
    }
}

impl NamedFile {
    /// Opens the file, wherever it is, for nothing but to name it. Links of the caller's `/proc` mean nothing
    /// here, so none is followed.
    pub(super) fn open(self) -> Result<OwnedFd, Errno> {
        let (directory, path, flags) = match self {
            Self::Opened(file) => return Ok(file),
            Self::Named { directory, path, flags } => (directory, path, flags),
        };
        let is_absolute = directory.is_none();
        let start = directory.as_ref().map_or(CWD, AsFd::as_fd);
        match rustix::fs::openat2(start, &path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS) {
            Err(Errno::LOOP) if is_absolute => Err(Errno::PERM),
            other => other,
        }
    }
}

/// The number of the caller's descriptor if a path is the link to one: the C library changes modes through
/// such links.
fn descriptor_link(path: &CStr) -> Option<i32> {
    let path = path.to_str().ok()?;
    let number = DESCRIPTOR_DIRS.iter().find_map(|dir| path.strip_prefix(dir))?;
    number.parse().ok().filter(|number: &i32| *number >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_links_to_descriptors_are_recognised() {
        for (path, number) in [
            (c"/proc/self/fd/7", Some(7)),
            (c"/dev/fd/0", Some(0)),
            (c"/proc/thread-self/fd/12", Some(12)),
            (c"/proc/self/fd/7/x", None),
            (c"/proc/self/fd/-1", None),
            (c"/proc/1/fd/7", None),
            (c"proc/self/fd/7", None),
        ] {
            assert_eq!(descriptor_link(path), number, "{path:?}");
        }
    }

    #[test]
    fn a_path_is_read_up_to_its_end_and_bad_addresses_fail() {
        let caller = CallingThread::new(std::process::id());
        let path = CString::new("x".repeat(MAX_PATH_BYTES - 1)).unwrap();
        assert_eq!(caller.read_path(path.as_ptr() as u64).unwrap(), path);
        let long = CString::new("x".repeat(MAX_PATH_BYTES)).unwrap();
        assert_eq!(caller.read_path(long.as_ptr() as u64), Err(Errno::NAMETOOLONG));
        assert_eq!(caller.read_path(0), Err(Errno::FAULT));
        assert_eq!(caller.read_path(u64::MAX), Err(Errno::FAULT));
    }
}
