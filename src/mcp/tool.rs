//! A tool of a server, as the toolbox sees it. Owns the wait of a thread for an answer that an async session brings;
//! refuses what the server says of its harmlessness.

use super::call::{Answer, call};
use super::content;
use super::redact::quote;
use super::server::Server;
use crate::domain::secret::Redactor;
use crate::domain::tool::{FileAccess, ToolOrigin, ToolSpec, ToolTraits};
use crate::ports::{CancelReason, CancelToken, Tool, ToolContext, ToolError};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// How often a call that waits looks at its cancel.
const LOOK: Duration = Duration::from_millis(50);

/// A tool of a server.
pub(super) struct McpTool {
    /// Whose.
    pub(super) server: Arc<Server>,
    /// As the server names it.
    pub(super) raw: String,
    /// Its names before what providers refuse was replaced, and before a hash told it apart.
    pub(super) meant: [String; 2],
    /// As models see it.
    pub(super) spec: ToolSpec,
    /// The operator says that it may be run again.
    pub(super) is_idempotent: bool,
    /// Where sessions live.
    pub(super) runtime: Handle,
}

impl McpTool {
    fn patience(&self) -> Duration {
        Duration::from_secs(self.server.options.timeout_s)
    }

    /// Waits for the answer; when the cancel is pulled first, the call is taken back.
    fn wait(
        &self,
        answers: &Receiver<Answer>,
        recall: oneshot::Sender<String>,
        given: &CancelToken,
    ) -> Result<Answer, ToolError> {
        let cancel = given.with_timeout(self.patience());
        let (name, broken) = (&self.server.name, "the thread of the MCP servers has ended");
        loop {
            match answers.recv_timeout(LOOK) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Disconnected) => return Err(ToolError::failed(broken)),
                Err(RecvTimeoutError::Timeout) if !cancel.is_cancelled() => {}
                Err(RecvTimeoutError::Timeout) => break,
            }
        }
        let (why, message) = match cancel.reason() {
            Some(CancelReason::Cancelled) => ("the user cancelled it", "the call was cancelled".to_owned()),
            Some(_) => ("this client is being stopped", "the call was stopped".to_owned()),
            None if given.is_cancelled() => (
                "it took too long",
                format!("the job's own time was over before the MCP server '{name}' had answered"),
            ),
            None => (
                "it took too long",
                format!("the MCP server '{name}' gave no answer within {} s", self.server.options.timeout_s),
            ),
        };
        // The task may have its answer just now; nobody waits for it any more.
        drop(recall.send(why.to_owned()));
        Err(ToolError::failed(message))
    }

    fn tell(&self, answer: &Answer) -> Result<Value, ToolError> {
        let name = &self.server.name;
        match answer {
            Answer::Result(result) => self.redacted(content::data(result)),
            Answer::Refused { for_arguments: true, why } => Err(ToolError::Invalid(self.quote(why))),
            Answer::Refused { why, .. } => Err(ToolError::failed(format!(
                "the MCP server '{name}' refused the call: {}",
                self.quote(why)
            ))),
            Answer::Lost(why) => Err(ToolError::failed(format!(
                "the MCP server '{name}' broke the call off, and whether it took effect is unknown: {}",
                self.quote(why)
            ))),
            Answer::TakenBack => Err(ToolError::failed("the call was stopped")),
        }
    }

    /// A server that repeats what it was given tells no model of it.
    fn redacted(&self, told: Result<Value, ToolError>) -> Result<Value, ToolError> {
        let redactor = Redactor::new(self.server.options.secrets());
        told.map(|data| redactor.redact_value(data)).map_err(|error| error.redacted(&redactor))
    }

    fn quote(&self, said: &str) -> String {
        quote(said, &self.server.options)
    }
}

impl Tool for McpTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    /// The careful ones, but for what the operator says: a server's own hints (`readOnlyHint`, `idempotentHint`) are the
    /// word of a stranger, and a wrong one would run something twice.
    fn traits(&self) -> ToolTraits {
        ToolTraits { idempotent: self.is_idempotent, cacheable: false, files: FileAccess::Runs }
    }

    fn origin(&self) -> ToolOrigin {
        ToolOrigin::Mcp { server: self.server.name.clone() }
    }

    /// A server that lists a second tool of the same name changes neither what the operator meant nor what waits.
    fn approval_names(&self) -> Vec<String> {
        self.meant.to_vec()
    }

    fn own_timeout(&self, _arguments: &Map<String, Value>) -> Duration {
        self.patience()
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        let peer = self.server.peer().map_err(ToolError::failed)?;
        let (recall, recalled) = oneshot::channel();
        let (answer, answers) = sync_channel(1);
        let (tool, arguments) = (self.raw.clone(), arguments.clone());
        self.runtime.spawn(async move {
            let recalled = async {
                match recalled.await {
                    Ok(why) => why,
                    Err(_) => std::future::pending().await,
                }
            };
            // Whoever asked may have gone.
            drop(answer.send(call(peer, tool, arguments, recalled).await));
        });
        let answer = self.wait(&answers, recall, &context.cancel)?;
        self.tell(&answer)
    }
}
