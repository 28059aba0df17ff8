//! SIGTERM and SIGINT: the first asks for an orderly stop, the second ends the process at once.

use futures_util::future::{Either, select};
use std::io;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The exit code of a process that was asked twice.
const IMPATIENT_EXIT: i32 = 1;

/// Both signals, from the moment of creation on.
pub(super) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Takes the signals over from their default, which is to end the process.
    pub(super) fn listen(runtime: &Runtime) -> io::Result<Self> {
        let _context = runtime.enter();
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Blocks until one of them comes.
    pub(super) fn wait(&mut self, runtime: &Runtime) {
        let (terminate, interrupt) = (Box::pin(self.terminate.recv()), Box::pin(self.interrupt.recv()));
        match runtime.block_on(select(terminate, interrupt)) {
            Either::Left(_) | Either::Right(_) => {}
        }
    }

    /// From now on the next one ends the process: everything acknowledged is on the disk already.
    pub(super) fn exit_on_next(mut self, runtime: &Runtime) {
        let handle = runtime.handle().clone();
        let waiting = move || {
            let (terminate, interrupt) = (Box::pin(self.terminate.recv()), Box::pin(self.interrupt.recv()));
            handle.block_on(select(terminate, interrupt));
            tracing::warn!("asked twice: ending at once");
            std::process::exit(IMPATIENT_EXIT);
        };
        if let Err(error) = std::thread::Builder::new().name("second-signal".to_owned()).spawn(waiting) {
            tracing::warn!(%error, "a second signal will not be heeded");
        }
    }
}
