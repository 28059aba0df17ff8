//! Disk faults of one process: temporary I/O errors, and its end. After the end no write reaches the disk;
//! the image of that moment remains.

use crate::support::disk::{Disk, DiskHook, SeededRandom};
use std::io;
use std::sync::Mutex;

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// `kill -9`: the kernel keeps all written data.
    Kill,
    /// Power loss: all synced data and any part of the rest remain.
    PowerLoss,
}

/// Operations that succeed after a window of faults before another one may begin: enough to open the store.
/// It gives up after ten failed attempts in a row, as it should: windows that touch are no temporary fault.
const REST: u64 = 32;

/// I/O errors: after `after` operations, `count` operations fail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IoFault {
    pub(crate) after: u64,
    pub(crate) count: u64,
    pub(crate) is_full: bool,
}

/// The faults of one process.
#[derive(Debug)]
pub(crate) struct DiskFaults(Mutex<State>);

#[derive(Debug)]
struct State {
    random: SeededRandom,
    /// Operations until the end, and its kind.
    end: Option<(u64, End)>,
    io_fault: Option<IoFault>,
    /// Operations until the next fault may be scheduled.
    rest: u64,
    image: Option<Vec<u8>>,
}

impl DiskFaults {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(State {
            random: SeededRandom(seed),
            end: None,
            io_fault: None,
            rest: 0,
            image: None,
        }))
    }

    /// Ends the process after this many disk operations.
    pub(crate) fn end_after(&self, operations: u64, end: End) {
        self.0.lock().unwrap().end = Some((operations, end));
    }

    /// Ends the process now.
    pub(crate) fn end(&self, disk: &Disk, end: End) {
        self.0.lock().unwrap().strike(disk, end);
    }

    /// Schedules I/O errors, unless others are scheduled or just over. Returns whether it did.
    pub(crate) fn schedule_fault(&self, fault: IoFault) -> bool {
        let mut state = self.0.lock().unwrap();
        let is_free = state.io_fault.is_none() && state.rest == 0;
        if is_free {
            state.io_fault = Some(fault);
        }
        is_free
    }

    /// Cancels all further faults.
    pub(crate) fn calm(&self) {
        let mut state = self.0.lock().unwrap();
        (state.end, state.io_fault) = (None, None);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.0.lock().unwrap().image.is_some()
    }

    /// The disk image of the dead process.
    pub(crate) fn image(&self) -> Option<Vec<u8>> {
        self.0.lock().unwrap().image.take()
    }
}

impl State {
    fn strike(&mut self, disk: &Disk, end: End) {
        if self.image.is_none() {
            self.image = Some(match end {
                End::Kill => disk.content(),
                End::PowerLoss => disk.image(&mut self.random),
            });
        }
    }

    fn fails(&mut self) -> Option<io::Error> {
        self.rest = self.rest.saturating_sub(1);
        let fault = self.io_fault.as_mut()?;
        if fault.after > 0 {
            fault.after -= 1;
            return None;
        }
        if fault.count == 0 {
            (self.io_fault, self.rest) = (None, REST);
            return None;
        }
        fault.count -= 1;
        let full = io::Error::from(io::ErrorKind::StorageFull);
        Some(if fault.is_full { full } else { io::Error::other("the disk refuses") })
    }
}

impl DiskHook for DiskFaults {
    fn before_write(&self, disk: &Disk) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        match state.end.as_mut() {
            Some((0, end)) => {
                let end = *end;
                state.strike(disk, end);
            }
            Some((left, _)) => *left -= 1,
            None => {}
        }
        if state.image.is_some() {
            return Err(io::Error::other("the process is dead"));
        }
        state.fails().map_or(Ok(()), Err)
    }
}
