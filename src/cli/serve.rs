//! `nanoclaw serve`: runs the server in the foreground and prints the start banner.

use super::error::CliError;
use super::logging;
use super::terminal::Terminal;
use crate::app::{App, AppError, SocketActivationError};
use crate::config::{Config, LogFormat};
use crate::http::setup_invite::SetupInviteResponse;
use crate::store::OpenError;
use nanoclaw_sandbox::SandboxReport;

#[derive(Debug, clap::Args)]
pub(super) struct ServeArgs {
    /// Address and port, or `unix:/path`; port 0 chooses a free one and prints it
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Start with an empty store if the directory had one that is missing now
    #[arg(long)]
    new_store: bool,
}

impl ServeArgs {
    /// The configuration keys that the flags set.
    pub(super) fn flags(&self) -> Vec<(String, String)> {
        self.listen.iter().map(|listen| ("listen".to_owned(), listen.clone())).collect()
    }

    /// Sets what no configuration key may set.
    pub(super) fn apply(&self, config: Config) -> Config {
        config.with_new_store(self.new_store)
    }
}

/// Serves until SIGTERM. Stdout gets one line: the address.
pub(super) fn serve(config: &Config, terminal: &Terminal) -> Result<(), CliError> {
    logging::start(&config.log);
    if let Some(note) = config.original_keys_note() {
        tracing::warn!("{note}");
    }
    for warning in &config.warnings {
        tracing::warn!(warning, "the configuration needs attention");
    }
    // With JSON logs, stderr carries nothing but JSON lines.
    let is_json = config.log.format == LogFormat::Json;
    let banner = terminal.clone();
    let on_report = move |report: &SandboxReport| print_report(report, is_json, &banner);
    let app = App::start(config, Box::new(on_report)).map_err(|error| explain(&error))?;
    terminal.line(&app.bound().to_string())?;
    if is_json {
        let (version, data) = (env!("CARGO_PKG_VERSION"), config.data_dir.display());
        tracing::info!(version, listening = %app.bound(), %data, workers = config.workers, "serving");
    } else {
        print_banner(config, &app, terminal);
    }
    if let Some(SetupInviteResponse { code, link, expires_at }) = app.setup_invite() {
        let link = link.as_deref().unwrap_or_default();
        if is_json {
            tracing::warn!(
                code,
                link,
                expires_at,
                "there is no account yet: the first one needs this invite"
            );
        } else {
            terminal.info(&setup_text(code, link, expires_at));
        }
    }
    app.run();
    Ok(())
}

/// How the first account is made.
fn setup_text(code: &str, link: &str, expires_at: &str) -> String {
    let (way, shown) = match link {
        "" => ("With this invite the console, or POST /api/auth/register, makes the administrator's", code),
        link => ("This link makes the administrator's", link),
    };
    format!(
        "There is no account yet. {way}, until {expires_at}:\n  {shown}\nA new one: nanoclaw user setup-link. Without \
         it, on this machine: nanoclaw user add NAME"
    )
}

fn print_banner(config: &Config, app: &App, terminal: &Terminal) {
    terminal.info(&format!(
        "nanoclaw {}\n  listening  {}\n  data       {}\n  workers    {}\n  model      {}",
        env!("CARGO_PKG_VERSION"),
        app.bound(),
        config.data_dir.display(),
        config.workers,
        config.default_model,
    ));
}

/// The result of the self-test: a log line, or the last lines of the banner.
fn print_report(report: &SandboxReport, is_json: bool, terminal: &Terminal) {
    let levels: Vec<&str> = report.levels.iter().filter(|l| l.able).map(|l| l.level.name()).collect();
    let levels = levels.join(", ");
    if is_json {
        return tracing::info!(levels, python = report.python.version, "the sandbox was tested");
    }
    let usable = match (levels.is_empty(), report.levels.iter().any(|level| !level.tested)) {
        (false, _) => levels,
        (true, false) => "OFF: run 'nanoclaw doctor'".to_owned(),
        (true, true) => "not tested yet: see the log".to_owned(),
    };
    let python = report.python.version.as_deref().map_or("no Python".to_owned(), |v| format!("Python {v}"));
    let layers = &report.layers;
    terminal.info(&format!("  sandbox    {usable} ({python}, JavaScript)\n  layers     optional: {layers}"));
}

/// The error of a server that did not start, with advice.
pub(super) fn explain(error: &AppError) -> CliError {
    let hint = match error {
        AppError::DataDir { .. } => "name a directory that you may write to: --data-dir DIR",
        AppError::Listen { .. } => "another program may listen there; choose another: --listen 127.0.0.1:0",
        AppError::SocketActivation(_) => "see: systemctl cat nanoclaw.socket",
        _ => "see: nanoclaw doctor",
    };
    match error {
        AppError::Models(_)
        | AppError::Sandbox(_)
        | AppError::Commands(_)
        | AppError::BadApproval(_)
        | AppError::BadSecret(_)
        | AppError::BadRange(_)
        | AppError::BadWebRange(_) => CliError::config(error.to_string()).hint("see: nanoclaw config check"),
        // The unit file is wrong; another start would fail alike.
        AppError::SocketActivation(
            SocketActivationError::TooMany { .. }
            | SocketActivationError::NoListener
            | SocketActivationError::Public { .. }
            | SocketActivationError::Nameless,
        ) => CliError::config(error.to_string()).hint(hint),
        // Another start would find the same file.
        AppError::Store(OpenError::Unusable { .. }) => {
            CliError::damaged(error.to_string()).hint(error.advice().unwrap_or(hint))
        }
        _ => CliError::failed(error.to_string()).hint(error.advice().unwrap_or(hint)),
    }
}
