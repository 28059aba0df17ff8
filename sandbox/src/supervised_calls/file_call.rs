//! The supervised calls by their numbers: which file they name, and what they change.

use crate::policy::numbers;
use rustix::fs::AtFlags;
use rustix::io::Errno;

/// One call.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileCall {
    pub(super) location: FileArguments,
    pub(super) change: ChangeArguments,
}

/// How a call names its file.
#[derive(Clone, Copy, Debug)]
pub(super) enum FileArguments {
    /// A descriptor of the caller.
    Descriptor(i32),
    Path {
        /// The directory of relative paths: a descriptor of the caller, or `AT_FDCWD`.
        directory: i32,
        /// Where the path stands in the caller's memory.
        address: u64,
        flags: AtFlags,
    },
}

/// The change that a call asks for. Addresses are in the caller's memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChangeArguments {
    Mode(u32),
    Owner { user: u32, group: u32 },
    Times { format: TimeFormat, address: u64 },
}

/// How two times lie in memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum TimeFormat {
    /// Seconds and nanoseconds, twice.
    Nanoseconds,
    /// Seconds and microseconds, twice.
    #[cfg(target_arch = "x86_64")]
    Microseconds,
    /// Two numbers of seconds.
    #[cfg(target_arch = "x86_64")]
    Seconds,
}

/// The lower 32 bits of an argument.
fn low(argument: u64) -> u32 {
    (argument & 0xffff_ffff) as u32
}

fn descriptor(argument: u64) -> i32 {
    low(argument).cast_signed()
}

fn at(directory: u64, address: u64, flags: u64) -> Result<FileArguments, Errno> {
    let flags = AtFlags::from_bits_retain(low(flags));
    if !(AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH).contains(flags) {
        return Err(Errno::INVAL);
    }
    Ok(FileArguments::Path { directory: descriptor(directory), address, flags })
}

impl FileCall {
    /// A call by its number and arguments.
    pub(super) fn parse(number: i32, arguments: [u64; 6]) -> Result<Self, Errno> {
        // The second argument is a path, or what belongs to a descriptor.
        let [file, path, third, fourth, fifth, _] = arguments;
        let of_descriptor = |change| Self { location: FileArguments::Descriptor(descriptor(file)), change };
        let at_path = |flags, change| at(file, path, flags).map(|location| Self { location, change });
        match i64::from(number) {
            libc::SYS_fchmod => Ok(of_descriptor(ChangeArguments::Mode(low(path)))),
            libc::SYS_fchmodat => at_path(0, ChangeArguments::Mode(low(third))),
            numbers::SYS_fchmodat2 => at_path(fourth, ChangeArguments::Mode(low(third))),
            libc::SYS_fchown => Ok(of_descriptor(owner(path, third))),
            libc::SYS_fchownat => at_path(fifth, owner(third, fourth)),
            libc::SYS_utimensat if path == 0 => Ok(of_descriptor(nanoseconds(third))),
            libc::SYS_utimensat => at_path(fourth, nanoseconds(third)),
            number => Self::parse_older(number, arguments),
        }
    }

    /// Calls that only x86-64 has.
    #[cfg(target_arch = "x86_64")]
    fn parse_older(number: i64, [a, b, c, ..]: [u64; 6]) -> Result<Self, Errno> {
        let in_cwd = |flags: AtFlags, change| {
            let location = FileArguments::Path { directory: libc::AT_FDCWD, address: a, flags };
            Ok(Self { location, change })
        };
        let times = |format, address| ChangeArguments::Times { format, address };
        match number {
            libc::SYS_chmod => in_cwd(AtFlags::empty(), ChangeArguments::Mode(low(b))),
            libc::SYS_chown => in_cwd(AtFlags::empty(), owner(b, c)),
            libc::SYS_lchown => in_cwd(AtFlags::SYMLINK_NOFOLLOW, owner(b, c)),
            libc::SYS_utime => in_cwd(AtFlags::empty(), times(TimeFormat::Seconds, b)),
            libc::SYS_utimes => in_cwd(AtFlags::empty(), times(TimeFormat::Microseconds, b)),
            libc::SYS_futimesat => {
                let change = times(TimeFormat::Microseconds, c);
                let location = if b == 0 { FileArguments::Descriptor(descriptor(a)) } else { at(a, b, 0)? };
                Ok(Self { location, change })
            }
            _ => Err(Errno::PERM),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn parse_older(_number: i64, _arguments: [u64; 6]) -> Result<Self, Errno> {
        Err(Errno::PERM)
    }
}

fn owner(user: u64, group: u64) -> ChangeArguments {
    ChangeArguments::Owner { user: low(user), group: low(group) }
}

fn nanoseconds(address: u64) -> ChangeArguments {
    ChangeArguments::Times { format: TimeFormat::Nanoseconds, address }
}
