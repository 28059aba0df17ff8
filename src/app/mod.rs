//! Composes the server: starts every part in order and stops them in reverse. Only this module knows all
//! others.

mod audit;
mod catalogue;
mod control_file;
mod data_dir;
mod directory_size;
mod error;
mod file_parts;
mod free_memory;
mod job_directories;
mod job_services;
mod job_usages;
mod mcp;
mod memories;
mod plain_process;
mod process;
mod project_cleanup;
mod project_limit;
mod readiness;
mod run_limit;
mod secret_files;
mod self_test;
mod service_manager;
mod setup_link;
mod shared_dir;
mod shared_dir_watch;
mod signals;
mod socket_activation;
mod start;
mod status;
pub mod system;
mod telemetry;
mod tools;
mod watchdog;
mod webhooks;
mod workspace_files;

use crate::engine::pool::WorkerPool;
use crate::engine::scheduler::SchedulerThread;
use crate::http::setup_invite::SetupInviteResponse;
use crate::http::{BoundAddress, ShutdownSender, ShutdownStage};
use crate::mcp::McpServers;
use crate::ports::NodeStore;
use crate::telemetry::SpanExportThread;
use crate::webhooks::DispatcherThread;
use control_file::ControlFile;
pub use control_file::{ControlAddress, read_control_file};
pub use data_dir::{CONTENTS_DIRECTORY, STORE_FILE, database_options, open_store, provide_data_dir};
pub use error::AppError;
use free_memory::FreeMemoryReleaser;
use job_directories::JobDirectoryCleaner;
pub use mcp::{host as mcp_host, ports as mcp_ports};
pub use secret_files::log_public_key;
use self_test::SandboxSelfTest;
pub use self_test::{SelfTestListener, missing_modules};
pub use setup_link::renew_setup_invite;
use signals::StopSignals;
pub use signals::{INTERRUPTED_EXIT, on_interrupt};
pub use socket_activation::SocketActivationError;
pub use start::engine_limits;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
pub use tools::{local_tools, sandbox_options};
use watchdog::Watchdog;

/// Time for streams to end after the workers have drained.
const CLOSING_TIME: Duration = Duration::from_secs(3);

/// Time for webhooks in flight after the workers have drained; others are sent after the next start.
const WEBHOOK_TIME: Duration = Duration::from_secs(1);

/// Time for connections to be closed by force.
const ABORTING_TIME: Duration = Duration::from_secs(1);

/// A started server.
pub struct App {
    runtime: Runtime,
    signals: StopSignals,
    stages: ShutdownSender,
    serving: JoinHandle<()>,
    pool: WorkerPool,
    webhooks: DispatcherThread,
    span_export: Option<SpanExportThread>,
    mcp: Option<Arc<McpServers>>,
    scheduler: SchedulerThread,
    cleaner: JobDirectoryCleaner,
    control: Option<ControlFile>,
    store: Arc<dyn NodeStore>,
    self_test: SandboxSelfTest,
    bound: BoundAddress,
    setup_invite: Option<SetupInviteResponse>,
    drain: Duration,
}

impl App {
    /// The invite for the first account, if the server needs one.
    pub fn setup_invite(&self) -> Option<&SetupInviteResponse> {
        self.setup_invite.as_ref()
    }

    /// Where the server listens.
    pub fn bound(&self) -> &BoundAddress {
        &self.bound
    }

    /// Serves until SIGTERM or SIGINT, then stops in order: no new clients, workers drained, streams ended,
    /// last commit. A second signal ends the process at once, which is safe for the store.
    pub fn run(self) {
        self.run_until(std::future::pending::<()>());
    }

    /// The same, and stops when `work`, which runs on a thread of its own, has ended, too.
    pub fn run_beside(self, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let (end, ended) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("mcp-end".to_owned()).spawn(move || {
            work();
            drop(end);
        });
        drop(thread?); // after a signal nobody waits for it
        self.run_until(ended);
        Ok(())
    }

    fn run_until(mut self, ended: impl Future) {
        // Nothing can fail from here on, so a claimed job is not cut off.
        self.pool.begin();
        service_manager::notify_ready(&format!("serving {}", self.bound));
        self.self_test.start();
        let watchdog = Watchdog::start(&self.store, self.bound.to_string()).unwrap_or_else(|error| {
            tracing::error!(%error, "cannot start the watchdog thread; the service manager will restart the server");
            None
        });
        let _free_memory = FreeMemoryReleaser::start()
            .inspect_err(|error| tracing::warn!(%error, "cannot start the thread that returns free memory"));
        self.signals.wait(&self.runtime, ended);
        tracing::info!(timeout = ?self.drain, "stopping; running jobs may reach a step boundary");
        if let Some(watchdog) = watchdog {
            watchdog.end();
        }
        service_manager::notify_stopping(self.drain);
        self.signals.exit_on_next(&self.runtime);
        self.stages.advance(ShutdownStage::Draining);
        self.webhooks.stop();
        if let Some(export) = &self.span_export {
            export.stop();
        }
        self.scheduler.end();
        self.cleaner.end();
        self.pool.drain(self.drain);
        // No worker is left that could call a tool.
        if let Some(mcp) = self.mcp {
            mcp.stop();
        }
        self.webhooks.join(WEBHOOK_TIME);
        if let Some(export) = self.span_export {
            export.join(WEBHOOK_TIME);
        }
        self.stages.advance(ShutdownStage::Closing);
        let closing = {
            let _context = self.runtime.enter();
            tokio::time::timeout(CLOSING_TIME, self.serving)
        };
        if self.runtime.block_on(closing).is_err() {
            self.stages.advance(ShutdownStage::Aborting);
        }
        self.runtime.shutdown_timeout(ABORTING_TIME);
        // Removed before the store is free, so that no command finds a server that is gone.
        drop(self.control);
        self.store.close();
        tracing::info!("stopped");
    }
}
