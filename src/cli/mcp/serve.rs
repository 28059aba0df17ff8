//! `nanoclaw mcp serve`: the MCP server over stdin and stdout. The server that has the data directory open
//! serves it, or one that runs in this process and listens where only its own user comes in. So there is one
//! writer of the store, however many editors start this command.

use super::bridge::Bridge;
use crate::app::system::SystemClock;
use crate::app::{App, AppError, read_control_file};
use crate::cli::client::ApiClient;
use crate::cli::error::CliError;
use crate::cli::terminal::Terminal;
use crate::cli::{admin, logging, serve};
use crate::config::{Config, Listen};
use crate::ports::{CancelToken, Clock};
use crate::store::OpenError;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// The socket of the server in this process, in its data directory.
const SOCKET: &str = "mcp.sock";
/// The longest path of a socket, bytes.
const SOCKET_PATH_BYTES: usize = 100;
/// How often the server of the data directory is looked for while it starts or stops.
const TRIES: u32 = 40;
/// Time between two tries.
const PAUSE: Duration = Duration::from_millis(250);

/// Serves until stdin ends. Stdout gets nothing but messages.
pub(super) fn serve(
    named: Option<ApiClient>,
    load: impl FnOnce() -> Result<Config, CliError>,
    terminal: &Terminal,
) -> Result<(), CliError> {
    if let Some(client) = named {
        client.check_reachable()?;
        return Ok(Bridge::new(client, terminal.clone(), None).run(io::stdin().lock())?);
    }
    let config = load()?;
    if !config.mcp_server.enabled {
        return Err(CliError::config("the MCP server is turned off").hint("set mcp_server: {enabled: true}"));
    }
    logging::start(&config.log);
    let most_bytes = Some(config.limits.body_bytes);
    match open(config)? {
        OpenedServer::Running(client) => {
            Ok(Bridge::new(client, terminal.clone(), most_bytes).run(io::stdin().lock())?)
        }
        OpenedServer::Started(app, client) => {
            let bridge = Bridge::new(client, terminal.clone(), most_bytes);
            serve_beside(*app, bridge)
        }
    }
}

enum OpenedServer {
    /// Another process has the data directory open.
    Running(ApiClient),
    /// This process has it open.
    Started(Box<App>, ApiClient),
}

/// Finds the server of the data directory, or starts one.
fn open(config: Config) -> Result<OpenedServer, CliError> {
    let config = private(config);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let pause = CancelToken::new(clock);
    let mut refusal = None;
    let has_database = config.store.url.is_some();
    for _ in 0..TRIES {
        let running = if has_database {
            Ok(admin::answering_server(&config.data_dir))
        } else {
            admin::running_server(&config.data_dir)
        };
        match running {
            Ok(Some(client)) => return Ok(OpenedServer::Running(client)),
            Ok(None) => {}
            // It may be starting or stopping.
            Err(error) => refusal = Some(error),
        }
        match App::start(&config, Box::new(|_| {})) {
            Ok(app) => {
                let client = own_client(&config.data_dir)?;
                return Ok(OpenedServer::Started(Box::new(app), client));
            }
            Err(AppError::Store(OpenError::Locked { .. })) => pause.sleep(PAUSE),
            // Another process has just begun to serve this directory.
            Err(AppError::Listen { source, .. }) if has_database && source.kind() == ErrorKind::AddrInUse => {
                pause.sleep(PAUSE);
            }
            Err(error) => return Err(serve::explain(&error)),
        }
    }
    let dir = config.data_dir.display();
    Err(refusal.unwrap_or_else(|| {
        CliError::failed(format!(
            "another process has the store in '{dir}' open, and it is no server that answers"
        ))
        .hint("wait until it ends, or name another directory with --data-dir")
    }))
}

/// The configuration for a server that only this process and commands of this user use.
fn private(config: Config) -> Config {
    let path = config.data_dir.join(SOCKET);
    let path = std::path::absolute(&path).unwrap_or(path);
    let listen = if path.as_os_str().len() <= SOCKET_PATH_BYTES {
        Listen::Unix(path)
    } else {
        Listen::Tcp(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0))
    };
    config.with_listen(listen)
}

/// A client of the server in this process.
fn own_client(data_dir: &Path) -> Result<ApiClient, CliError> {
    let control = read_control_file(data_dir).ok().flatten();
    let control = control.ok_or_else(|| {
        CliError::failed("control.json of the own server cannot be read")
            .hint("is the disk full? see: nanoclaw doctor")
    })?;
    ApiClient::new(&control.address, Some(&control.key))
}

/// Runs the server until the client closes stdin, or until a signal.
fn serve_beside(app: App, bridge: Bridge) -> Result<(), CliError> {
    let (sender, results) = mpsc::channel();
    // Nobody waits after a signal.
    app.run_beside(move || drop(sender.send(bridge.run(io::stdin().lock()))))?;
    results.try_recv().unwrap_or(Ok(()))?;
    Ok(())
}
