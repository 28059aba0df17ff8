//! A tool of an MCP server. The calling thread waits for the result of an async session.

use super::call::{McpCallOutcome, call};
use super::content;
use super::kept_file::KeptFile;
use super::resources;
use super::server::Server;
use crate::domain::secret::Redactor;
use crate::domain::tool::{FileAccess, ToolOrigin, ToolSpec, ToolTraits};
use crate::ports::{
    CancelReason, CancelToken, Tool, ToolContext, ToolError, ToolScope, Unavailability, WorkspaceFiles,
    WorkspaceOwner,
};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Interval at which a waiting call checks its cancellation token.
const CANCEL_POLL: Duration = Duration::from_millis(50);

/// Time before its time-out at which a call has the supervisor probe the server.
const PROBE_TIME: Duration = Duration::from_secs(2);
/// Longest wait of a call for a server that is being started.
const START_WAIT: Duration = Duration::from_secs(5);

pub(super) struct McpTool {
    pub(super) server: Arc<Server>,
    /// Name on the server.
    pub(super) raw_name: String,
    /// Names that `approval` may use; they do not depend on the tools of other servers.
    pub(super) approval_names: [String; 2],
    pub(super) spec: ToolSpec,
    /// Set by the operator.
    pub(super) is_idempotent: bool,
    /// Where the sessions run.
    pub(super) runtime: Handle,
    /// Whether it is our reader of the server's resources.
    pub(super) reads_resources: bool,
    /// Keeps images and files of results.
    pub(super) files: Option<Arc<dyn WorkspaceFiles>>,
}

impl McpTool {
    fn timeout(&self) -> Duration {
        Duration::from_secs(self.server.options.timeout_s)
    }

    /// Waits for the outcome. A cancelled call is cancelled on the server, too.
    #[expect(clippy::disallowed_methods, reason = "waits for a process of the operating system")]
    fn wait(
        &self,
        outcomes: &Receiver<McpCallOutcome>,
        cancel_call: oneshot::Sender<String>,
        job: &CancelToken,
    ) -> Result<McpCallOutcome, ToolError> {
        let cancel = job.with_timeout(self.timeout());
        let name = &self.server.name;
        let (started, probe_after) =
            (Instant::now(), self.timeout().saturating_sub((self.timeout() / 2).min(PROBE_TIME)));
        let mut is_probed = false;
        loop {
            if !is_probed && started.elapsed() >= probe_after {
                self.server.slow_call.notify_one();
                is_probed = true;
            }
            match outcomes.recv_timeout(CANCEL_POLL) {
                Ok(outcome) => return Ok(outcome),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(ToolError::failed("the thread of the MCP servers has ended"));
                }
                Err(RecvTimeoutError::Timeout) if cancel.is_cancelled() => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        let (reason, message) = match cancel.reason() {
            Some(CancelReason::DeadlineExceeded) => {
                ("the job's deadline has passed", "the job's deadline has passed".to_owned())
            }
            Some(CancelReason::Cancelled) => ("the user cancelled it", "the call was cancelled".to_owned()),
            Some(_) => ("this client is being stopped", "the call was stopped".to_owned()),
            None if job.is_cancelled() => (
                "it took too long",
                format!("the job's own time was over before the MCP server '{name}' had answered"),
            ),
            None => (
                "it took too long",
                format!("the MCP server '{name}' gave no answer within {} s", self.server.options.timeout_s),
            ),
        };
        // Fails if the outcome has just arrived; no thread waits for it any more.
        drop(cancel_call.send(reason.to_owned()));
        if cancel.reason().is_none() && !job.is_cancelled() {
            self.server.report_timeout();
        }
        Err(ToolError::failed(message))
    }

    /// Keeps an image or a file of a result in the files of the job. Returns its path, or why it is not kept.
    fn keep(&self, mime: &str, data: &str, context: &ToolContext) -> Result<String, String> {
        let files = self.files.as_ref().ok_or("this command keeps no files")?;
        let folder = files.folder(WorkspaceOwner::from(context)).map_err(|error| error.to_string())?;
        let folder = folder.ok_or("a call without a job keeps no files")?;
        let file = KeptFile::new(&self.server.name, mime, data)?;
        folder.replace(&file.path, &file.bytes).map_err(|error| error.to_string())?;
        Ok(file.path)
    }

    /// The result for the model, without secrets that the server repeats.
    fn result(&self, outcome: &McpCallOutcome, context: &ToolContext) -> Result<Value, ToolError> {
        let (name, options) = (&self.server.name, &self.server.options);
        let failed = |event: &str, reason: &str| {
            Err(ToolError::failed(format!("the MCP server '{name}' {event}: {}", options.quote(reason))))
        };
        match outcome {
            McpCallOutcome::Result(result) => {
                let redactor = Redactor::new(options.secrets());
                let keep = |mime: &str, data: &str| self.keep(mime, data, context);
                content::data(result, &keep)
                    .map(|data| redactor.redact_value(data))
                    .map_err(|error| error.redacted(&redactor))
            }
            McpCallOutcome::Refused { invalid_arguments: true, message } => {
                Err(ToolError::Invalid(options.quote(message)))
            }
            McpCallOutcome::Refused { message, .. } => failed("refused the call", message),
            McpCallOutcome::Lost(reason) => {
                failed("broke the call off, and whether it took effect is unknown", reason)
            }
            McpCallOutcome::Cancelled => Err(ToolError::failed("the call was stopped")),
        }
    }
}

impl Tool for McpTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    /// The most careful traits, except for what the operator configures. The server's own hints
    /// (`readOnlyHint`, `idempotentHint`) are not trusted: a wrong one would run a call twice.
    fn traits(&self) -> ToolTraits {
        ToolTraits { idempotent: self.is_idempotent, cacheable: false, files: FileAccess::Runs }
    }

    fn origin(&self) -> ToolOrigin {
        ToolOrigin::Mcp { server: self.server.name.clone() }
    }

    fn unavailability(&self, _: &ToolScope<'_>) -> Option<Unavailability> {
        if self.server.is_usable() {
            return None;
        }
        self.server.peer().err().map(Unavailability::Now)
    }

    fn approval_names(&self) -> Vec<String> {
        self.approval_names.to_vec()
    }

    fn own_timeout(&self, _arguments: &Map<String, Value>) -> Duration {
        self.timeout()
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        let start_timeout = START_WAIT.min(self.timeout());
        self.server.wait_for_start(start_timeout, || context.cancel.is_cancelled());
        let peer = self.server.peer().map_err(ToolError::failed)?;
        let (cancel_call, cancel_reason) = oneshot::channel();
        let (sender, outcomes) = sync_channel(1);
        let (tool, arguments) = (self.raw_name.clone(), arguments.clone());
        let reads_resources = self.reads_resources;
        self.runtime.spawn(async move {
            let cancelled = async {
                match cancel_reason.await {
                    Ok(reason) => reason,
                    Err(_) => std::future::pending().await,
                }
            };
            // Fails if the caller has stopped waiting.
            let outcome = if reads_resources {
                resources::read(peer, arguments, cancelled).await
            } else {
                call(peer, tool, arguments, cancelled).await
            };
            drop(sender.send(outcome));
        });
        let outcome = self.wait(&outcomes, cancel_call, &context.cancel)?;
        self.result(&outcome, context)
    }
}
