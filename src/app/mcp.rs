//! Connects MCP to the sandbox: programs of MCP servers run as sandbox sessions.

use super::error::AppError;
use crate::config::Config;
use crate::mcp::{McpPorts, McpServers};
use crate::ports::{Clock, GuestPipes, GuestProcess, ProcessSpec, Processes};
use nanoclaw_sandbox::{Sandbox, SandboxSession, SessionEnd, SessionSpec};
use std::sync::Arc;
use std::time::Duration;

/// Starts the configured servers in the background. `None` if there are none.
pub(super) fn start(
    config: &Config,
    sandbox: &Arc<Sandbox>,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Arc<McpServers>>, AppError> {
    let servers = McpServers::start(&config.mcp_servers, ports(sandbox, clock)).map_err(AppError::Runtime)?;
    Ok(servers.map(Arc::new))
}

/// The ports of MCP, with programs in this sandbox.
pub fn ports(sandbox: &Arc<Sandbox>, clock: &Arc<dyn Clock>) -> McpPorts {
    McpPorts { processes: Arc::new(SandboxProcesses(Arc::clone(sandbox))), clock: Arc::clone(clock) }
}

struct SandboxProcesses(Arc<Sandbox>);

impl Processes for SandboxProcesses {
    fn start(&self, spec: &ProcessSpec) -> Result<Box<dyn GuestProcess>, String> {
        let spec = spec.clone();
        let session = self.0.open_session(&SessionSpec {
            arguments: spec.arguments,
            environment: spec.environment,
            workdir: spec.workdir,
            writable: spec.writable,
            readable: spec.readable,
            network: spec.network,
            ..SessionSpec::new(spec.program, &[])
        });
        Ok(Box::new(SessionGuest(session.map_err(|error| error.to_string())?)))
    }
}

struct SessionGuest(SandboxSession);

impl GuestProcess for SessionGuest {
    fn take_pipes(&mut self) -> Option<GuestPipes> {
        let stdin = self.0.take_stdin()?;
        let stdout = self.0.take_stdout()?;
        let stderr = self.0.take_stderr()?;
        Some(GuestPipes { stdin, stdout, stderr })
    }

    fn ended(&self, timeout: Duration) -> Option<String> {
        self.0.wait_for(timeout).map(|end| describe_end(&end))
    }
}

fn describe_end(end: &SessionEnd) -> String {
    match (&end.reason, end.exit_code, end.signal) {
        (Some(reason), ..) => reason.clone(),
        (None, Some(code), _) => format!("it ended with exit code {code}"),
        (None, None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None, None) => "it ended".to_owned(),
    }
}
