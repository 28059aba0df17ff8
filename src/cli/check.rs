//! `nanoclaw check`: reads a closed store completely and names damaged rows.

use super::backup::explain;
use super::error::CliError;
use super::terminal::Terminal;
use super::terminal::progress::TaskProgress;
use crate::app::STORE_FILE;
use crate::store::check as check_store;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct StoreCheckArgs {
    /// Print rows, damaged and the damaged places as JSON
    #[arg(long)]
    json: bool,
}

/// Checks the store of the data directory; no server may have it open. Fails if anything is damaged.
pub(super) fn check(
    data_dir: &Path,
    args: &StoreCheckArgs,
    terminal: &Terminal,
) -> Result<ExitCode, CliError> {
    let store = data_dir.join(STORE_FILE);
    // A damaged page may make redb panic; the panic is caught and counts as damage.
    std::panic::set_hook(Box::new(|_| {}));
    let progress = TaskProgress::time("reading the store", terminal);
    let checked = check_store(&store).map_err(|error| explain(&error))?;
    progress.end();
    let Some(report) = checked else {
        return Err(CliError::failed(format!("there is no store at '{}'", store.display()))
            .hint("name its directory with --data-dir"));
    };
    if args.json {
        let (rows, damaged, places) = (report.rows, report.damaged, &report.places);
        let result = json!({"store": store, "rows": rows, "damaged": damaged, "places": places});
        terminal.line(&result.to_string())?;
    } else {
        report.places.iter().try_for_each(|place| terminal.line(place))?;
    }
    if report.damaged == 0 {
        terminal.info(&format!("{} rows, none is damaged", report.rows));
        return Ok(ExitCode::SUCCESS);
    }
    terminal.info(&format!("{} of {} rows or tables are damaged", report.damaged, report.rows));
    terminal.info("hint: restore a backup from before: nanoclaw restore FILE");
    Ok(ExitCode::FAILURE)
}
