//! Ctrl-C in commands that wait for a server: a separate thread reports what happens to the work and ends the
//! process.

use super::error::CliError;
use crate::app::{INTERRUPTED_EXIT, on_interrupt};
use crate::ports::{CancelReason, CancelToken};

/// At the first Ctrl-C cancels `stop`, runs `report` and ends the process. A second Ctrl-C ends it at once.
pub(super) fn exit_on_interrupt(
    stop: &CancelToken,
    report: impl FnOnce() + Send + 'static,
) -> Result<(), CliError> {
    let stop = stop.clone();
    let exit = || std::process::exit(INTERRUPTED_EXIT.into());
    let report_and_exit = move || {
        report();
        exit();
    };
    let act = move || {
        stop.cancel(CancelReason::Cancelled);
        if std::thread::Builder::new().name("report".to_owned()).spawn(report_and_exit).is_err() {
            exit();
        }
    };
    on_interrupt(act).map_err(|error| CliError::failed(format!("cannot listen for Ctrl-C: {error}")))
}

/// The result of the work. After Ctrl-C a failed one does not return: the process is about to end.
pub(super) fn unless_interrupted<T>(result: Result<T, CliError>, stop: &CancelToken) -> Result<T, CliError> {
    while result.is_err() && stop.reason().is_some() {
        std::thread::park();
    }
    result
}
