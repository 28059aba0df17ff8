//! SIGTERM and SIGINT: the first asks for an orderly stop, the second ends the process at once.

use futures_util::future::{Either, select};
use std::io;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The exit code of a process that was asked twice.
const IMPATIENT_EXIT: i32 = 1;

/// The exit code of a command that was interrupted, as shells have it.
pub const INTERRUPTED_EXIT: u8 = 130;

/// Takes SIGINT over for a client command: the first one calls `act`, on a thread of its own, the second ends the process.
pub fn on_interrupt(act: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let mut interrupt = {
        let _context = runtime.enter();
        signal(SignalKind::interrupt())?
    };
    let waiting = move || {
        if runtime.block_on(interrupt.recv()).is_some() {
            act();
        }
        if runtime.block_on(interrupt.recv()).is_some() {
            std::process::exit(INTERRUPTED_EXIT.into());
        }
    };
    std::thread::Builder::new().name("interrupt".to_owned()).spawn(waiting).map(drop)
}

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
