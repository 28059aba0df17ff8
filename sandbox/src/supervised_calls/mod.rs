//! Calls that a supervisor makes in place of its command: they change the mode, the times or the owner of a
//! file, which landlock does not mediate.
//!
//! The supervisor copies the arguments once and finds the file they name. Then it opens that file again
//! beneath the command's own directories, without links, and changes only what it has opened itself. The
//! kernel never continues the command's own call.

mod apply;
mod caller;
mod change;
mod file_call;
mod own_dirs;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

pub(crate) use own_dirs::OwnDirs;

use crate::sys;
use caller::CallingThread;
use change::AttributeChange;
use file_call::FileCall;

/// Serves the supervised calls of one command.
#[derive(Debug)]
pub(crate) struct CallServer {
    listener: OwnedFd,
    own_dirs: OwnDirs,
}

impl CallServer {
    pub(crate) fn new(listener: OwnedFd, own_dirs: OwnDirs) -> Self {
        Self { listener, own_dirs }
    }

    /// Readable when a call waits; hung up when no process is left that can make one.
    pub(crate) fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Receives one call, makes it, and answers it.
    pub(crate) fn serve(&self) {
        // A caller that was killed meanwhile needs no answer.
        let Ok(call) = sys::receive_call(self.listener()) else { return };
        let errno = self.perform(&call).map_or_else(Errno::raw_os_error, |()| 0);
        sys::answer_call(self.listener(), call.id, errno).ok();
    }

    fn perform(&self, call: &libc::seccomp_notif) -> Result<(), Errno> {
        let caller = CallingThread::new(call.pid);
        let file_call = FileCall::parse(call.data.nr, call.data.args)?;
        let change = AttributeChange::read(file_call.change, &caller)?;
        let named = caller.named_file(&file_call.location)?;
        // Everything above belongs to the caller only if its id was not reused meanwhile.
        if !sys::is_call_pending(self.listener(), call.id) {
            return Err(Errno::SRCH);
        }
        let file = self.own_dirs.reopen(&named.open()?)?;
        apply::apply(&file, change)
    }
}
