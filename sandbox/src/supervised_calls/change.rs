//! The change of a supervised call, with the values from the caller's memory.

use rustix::fs::{Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;

use super::caller::CallingThread;
use super::file_call::{ChangeArguments, TimeFormat};

/// A change to a file.
#[derive(Clone, Debug)]
pub(super) enum AttributeChange {
    Mode(u32),
    /// `u32::MAX` keeps the present one.
    Owner {
        user: u32,
        group: u32,
    },
    Times(Timestamps),
}

impl AttributeChange {
    /// Copies the values from the caller's memory.
    pub(super) fn read(arguments: ChangeArguments, caller: &CallingThread) -> Result<Self, Errno> {
        Ok(match arguments {
            ChangeArguments::Mode(mode) => Self::Mode(mode),
            ChangeArguments::Owner { user, group } => Self::Owner { user, group },
            ChangeArguments::Times { address: 0, .. } => Self::Times(timestamps([(0, UTIME_NOW); 2])),
            ChangeArguments::Times { format, address } => Self::Times(read_times(format, address, caller)?),
        })
    }
}

fn read_times(format: TimeFormat, address: u64, caller: &CallingThread) -> Result<Timestamps, Errno> {
    let times = match format {
        TimeFormat::Nanoseconds => {
            let [seconds, nanoseconds, more_seconds, more_nanoseconds] = caller.read_numbers(address)?;
            [(seconds, nanoseconds), (more_seconds, more_nanoseconds)]
        }
        #[cfg(target_arch = "x86_64")]
        TimeFormat::Microseconds => {
            let [seconds, microseconds, more_seconds, more_microseconds] = caller.read_numbers(address)?;
            if [microseconds, more_microseconds].iter().any(|part| !(0..1_000_000).contains(part)) {
                return Err(Errno::INVAL);
            }
            [(seconds, microseconds * 1_000), (more_seconds, more_microseconds * 1_000)]
        }
        #[cfg(target_arch = "x86_64")]
        TimeFormat::Seconds => {
            let [access, modification] = caller.read_numbers(address)?;
            [(access, 0), (modification, 0)]
        }
    };
    Ok(timestamps(times))
}

fn timestamps([access, modification]: [(i64, i64); 2]) -> Timestamps {
    let time = |(tv_sec, tv_nsec)| Timespec { tv_sec, tv_nsec };
    Timestamps { last_access: time(access), last_modification: time(modification) }
}
