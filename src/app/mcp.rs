//! Connects MCP to the sandbox: programs of MCP servers run as sandbox sessions, unless the operator says
//! `sandbox: off`.

use super::directory_size::check_size;
use super::error::AppError;
use super::plain_process::PlainProcess;
use super::workspace_files::StoreWorkspaceFiles;
use super::{process, system};
use crate::config::{Config, Listen};
use crate::domain::account::AuthMode;
use crate::http::BoundAddress;
use crate::mcp::{McpHost, McpPorts, McpServers};
use crate::ports::{
    Clock, GuestPipes, GuestProcess, Meter, NoopMeter, PartFault, ProcessSpec, Processes, ReadinessProbe,
    WorkspaceFiles,
};
use nanoclaw_sandbox::{Sandbox, SandboxSession, SessionEnd, SessionSpec, can_close_ports};
use std::sync::Arc;
use std::time::Duration;

/// Starts the configured servers in the background. `None` if there are none.
pub(super) fn start(
    config: &Config,
    bound: &BoundAddress,
    ports: McpPorts,
    meter: &Arc<dyn Meter>,
    files: &Arc<StoreWorkspaceFiles>,
) -> Result<Option<Arc<McpServers>>, AppError> {
    let port = match bound {
        BoundAddress::Tcp(address) => Some(address.port()),
        BoundAddress::Unix(_) => None,
    };
    let host = McpHost { own_ports: own_ports(config, port), ..ports.host };
    let files: Arc<dyn WorkspaceFiles> = Arc::<StoreWorkspaceFiles>::clone(files);
    let ports = McpPorts { host, meter: Arc::clone(meter), files: Some(files), ..ports };
    let servers = McpServers::start(&config.mcp_servers, ports).map_err(AppError::Runtime)?;
    Ok(servers.map(Arc::new))
}

/// The ports of MCP, with programs in this sandbox.
pub fn ports(config: &Config, sandbox: &Arc<Sandbox>, clock: &Arc<dyn Clock>) -> McpPorts {
    McpPorts {
        processes: Arc::new(SandboxProcesses(Arc::clone(sandbox))),
        clock: Arc::clone(clock),
        host: host(config),
        meter: Arc::new(NoopMeter),
        files: None,
    }
}

/// What the programs of MCP servers get from this process.
pub fn host(config: &Config) -> McpHost {
    // Programs start in other directories.
    let data_dir = std::path::absolute(&config.data_dir).unwrap_or_else(|_| config.data_dir.clone());
    let port = match config.listen {
        Listen::Tcp(address) => Some(address.port()),
        Listen::Unix(_) => None,
    };
    let own_ports = own_ports(config, port);
    let shared_dir = config.store.shared_dir.clone();
    McpHost {
        data_dir,
        shared_dir,
        variable: system::variable,
        own_ports,
        can_close_ports: can_close_ports(),
    }
}

/// The port of a server without accounts. It is closed to programs, because every client may approve calls.
fn own_ports(config: &Config, port: Option<u16>) -> Vec<u16> {
    port.filter(|_| config.auth_mode == AuthMode::Single).into_iter().collect()
}

/// Never fails: other tools work without an MCP server.
pub(super) struct McpProbe(pub(super) Arc<McpServers>);

impl ReadinessProbe for McpProbe {
    fn name(&self) -> &'static str {
        "mcp"
    }

    fn check(&self) -> Result<(), PartFault> {
        Ok(())
    }

    fn degradation(&self) -> Option<PartFault> {
        let reasons: Vec<String> = self.0.infos().into_iter().filter_map(|info| info.reason).collect();
        (!reasons.is_empty())
            .then(|| PartFault::new(reasons.join("; "), "run 'nanoclaw mcp check' with the server's name"))
    }
}

struct SandboxProcesses(Arc<Sandbox>);

impl Processes for SandboxProcesses {
    fn start(&self, spec: &ProcessSpec) -> Result<Box<dyn GuestProcess>, String> {
        if spec.without_sandbox {
            return Ok(Box::new(PlainProcess::start(spec)?));
        }
        let mut spec = spec.clone();
        if let Some(dir) = spec.own_dir {
            process::make_private(&dir)
                .map_err(|error| format!("cannot make '{}': {error}", dir.display()))?;
            check_size(&dir)?;
            spec.program_dirs.push(dir);
        }
        let session = self.0.open_session(&SessionSpec {
            arguments: spec.arguments,
            environment: spec.environment,
            workdir: spec.workdir,
            writable: spec.writable,
            readable: spec.readable,
            writable_paths: spec.writable_paths,
            program_dirs: spec.program_dirs,
            network: spec.network,
            closed_ports: spec.closed_ports,
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
