//! Files without a name, for program texts and inputs.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, Mode, SealFlags};

/// A memory file with these bytes, positioned at its start.
pub(crate) fn memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    filled("nanoclaw", MemfdFlags::CLOEXEC, bytes).map(OwnedFd::from)
}

/// A memory file that can be neither changed nor executed: landlock does not check files without a name.
pub(crate) fn sealed_memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = filled("nanoclaw-input", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING, bytes)?;
    rustix::fs::fchmod(&file, Mode::RUSR)?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}

fn filled(name: &str, flags: MemfdFlags, bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create(name, flags)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}
