//! SIGTERM and SIGINT: the first asks for an orderly stop, the second ends the process at once.

use futures_util::future::{Either, select};
use std::io;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Exit code after a second signal.
const SECOND_SIGNAL_EXIT: i32 = 1;

/// Exit code of an interrupted command, as in shells.
pub const INTERRUPTED_EXIT: u8 = 130;

/// Handles SIGINT for a client command: the first calls `act` on its own thread, the second ends the
/// process.
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

pub(super) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Replaces the default action of both signals.
    pub(super) fn listen(runtime: &Runtime) -> io::Result<Self> {
        let _context = runtime.enter();
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Blocks until a signal arrives, or until `ended` resolves.
    pub(super) fn wait(&mut self, runtime: &Runtime, ended: impl Future) {
        let (terminate, interrupt) = (Box::pin(self.terminate.recv()), Box::pin(self.interrupt.recv()));
        match runtime.block_on(select(select(terminate, interrupt), Box::pin(ended))) {
            Either::Left(_) | Either::Right(_) => {}
        }
    }

    /// The next signal ends the process. Everything acknowledged is on the disk.
    pub(super) fn exit_on_next(mut self, runtime: &Runtime) {
        let handle = runtime.handle().clone();
        let waiting = move || {
            let (terminate, interrupt) = (Box::pin(self.terminate.recv()), Box::pin(self.interrupt.recv()));
            handle.block_on(select(terminate, interrupt));
            tracing::warn!("second signal; exiting at once");
            std::process::exit(SECOND_SIGNAL_EXIT);
        };
        if let Err(error) = std::thread::Builder::new().name("second-signal".to_owned()).spawn(waiting) {
            tracing::warn!(%error, "cannot handle a second signal");
        }
    }
}
