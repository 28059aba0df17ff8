//! `nanoclaw mcp serve`: the MCP server over stdin and stdout. The server that has the data directory open
//! serves it, or one that runs in this process and listens where only its own user comes in. So there is one
//! writer of the store, however many editors start this command.

use super::bridge::{Bridge, BridgeNews};
use crate::app::system::SystemClock;
use crate::app::{App, AppError, read_control_file};
use crate::cli::client::ApiClient;
use crate::cli::error::CliError;
use crate::cli::local_server::server_of;
use crate::cli::terminal::Terminal;
use crate::cli::{logging, serve};
use crate::config::{Config, Listen};
use crate::ports::{CancelToken, Clock};
use crate::store::OpenError;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
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
        return Ok(Bridge::new(client, terminal.clone(), None, None).run(io::stdin().lock())?);
    }
    let config = load()?;
    if !config.mcp_server.enabled {
        return Err(CliError::config("the MCP server is turned off").hint("set mcp_server: {enabled: true}"));
    }
    logging::start(&config.log);
    let most_bytes = Some(config.limits.body_bytes);
    let config = private(config);
    let mut server = open(&config, TRIES)?;
    let (sender, news) = mpsc::channel();
    let bridge = Bridge::new(server.client(), terminal.clone(), most_bytes, Some(sender.clone()));
    let carrying = bridge.clone();
    let carry = move || drop(sender.send(BridgeNews::Ended(carrying.run(io::stdin().lock()))));
    // It may read on after a signal.
    drop(std::thread::Builder::new().name("mcp-stdio".to_owned()).spawn(carry)?);
    loop {
        match server {
            OpenedServer::Started(app, _) => return serve_beside(*app, news),
            OpenedServer::Running(_) => match news.recv() {
                Ok(BridgeNews::Lost) => {}
                Ok(BridgeNews::Ended(result)) => return Ok(result?),
                Err(_) => return Ok(()),
            },
        }
        // The process that had it may end its jobs first.
        server = open(&config, TRIES.saturating_add(tries_in(config.limits.drain_s)))?;
        bridge.connect(server.client());
    }
}

fn tries_in(seconds: u64) -> u32 {
    let tries = Duration::from_secs(seconds).as_millis() / PAUSE.as_millis().max(1);
    u32::try_from(tries).unwrap_or(u32::MAX)
}

enum OpenedServer {
    /// Another process has the data directory open.
    Running(ApiClient),
    /// This process has it open.
    Started(Box<App>, ApiClient),
}

impl OpenedServer {
    fn client(&self) -> ApiClient {
        match self {
            Self::Running(client) | Self::Started(_, client) => client.clone(),
        }
    }
}

/// Finds the server of the data directory, or starts one.
fn open(config: &Config, tries: u32) -> Result<OpenedServer, CliError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let pause = CancelToken::new(clock);
    let mut refusal = None;
    let has_database = config.store.url.is_some();
    for _ in 0..tries {
        match server_of(&config.data_dir) {
            Ok(Some(client)) => return Ok(OpenedServer::Running(client)),
            Ok(None) => {}
            // It may be starting or stopping.
            Err(error) => refusal = Some(error),
        }
        match App::start(config, Box::new(|_| {})) {
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
fn serve_beside(app: App, news: Receiver<BridgeNews>) -> Result<(), CliError> {
    let (sender, results) = mpsc::channel();
    let wait_for_end = move || {
        for news in news {
            if let BridgeNews::Ended(result) = news {
                // Nobody waits after a signal.
                return drop(sender.send(result));
            }
        }
    };
    app.run_beside(wait_for_end)?;
    results.try_recv().unwrap_or(Ok(()))?;
    Ok(())
}
