//! `nanoclaw check`: reads a closed store or a database completely, and the contents of uploaded files. Names
//! what is damaged.

use super::backup::{explain, transfer_error};
use super::doctor;
use super::error::CliError;
use super::store_target::LocatedStore;
use super::terminal::Terminal;
use super::terminal::progress::TaskProgress;
use crate::app::CONTENTS_DIRECTORY;
use crate::store::{
    ContentDirectory, DAMAGED_EXIT, DAMAGED_STORE, StoreCheck, StoreLocation, check as check_store,
    check_database, is_about_to_abort, shared_dir_beacon,
};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct StoreCheckArgs {
    /// Print rows, damaged and the damaged places as JSON
    #[arg(long)]
    json: bool,
}

/// A damaged page may make redb panic; the panic is caught and counts as damage. One that would abort the
/// process ends it with a message.
fn quiet_panics() {
    std::panic::set_hook(Box::new(|panic| {
        if is_about_to_abort(panic) {
            // There is no other place to report that stderr cannot be written.
            drop(writeln!(std::io::stderr(), "nanoclaw: {DAMAGED_STORE}"));
            std::process::exit(DAMAGED_EXIT);
        }
    }));
}

/// Checks the store of the data directory, which no server may have open, or the database of the
/// configuration. Fails if anything is damaged.
pub(super) fn check(
    LocatedStore { location: store, files_dir, .. }: &LocatedStore,
    args: &StoreCheckArgs,
    terminal: &Terminal,
) -> Result<ExitCode, CliError> {
    let progress = TaskProgress::time("reading the store", terminal);
    let report = read(store)?;
    let contents = contents_directory(store, files_dir.as_deref(), &report)?;
    let damaged_contents = match &contents {
        Ok(directory) => ContentDirectory::check(directory, &report.contents),
        Err(reason) => vec![format!("contents of files (they were not checked: {reason})")],
    };
    progress.end();
    let (store, restore) = match store {
        StoreLocation::File(file) => (file.display().to_string(), "nanoclaw restore FILE"),
        StoreLocation::Database(_) => ("store.url".to_owned(), "nanoclaw migrate --from FILE --to store.url"),
    };
    let damaged = report.damaged.saturating_add(damaged_contents.len() as u64);
    let places: Vec<&String> = report.places.iter().chain(&damaged_contents).collect();
    if args.json {
        let rows = report.rows;
        let result = json!({"store": store, "rows": rows, "damaged": damaged, "places": places});
        terminal.line(&result.to_string())?;
    } else {
        places.iter().try_for_each(|place| terminal.line(place))?;
    }
    if damaged == 0 {
        terminal.info(&format!("{} rows, none is damaged", report.rows));
        return Ok(ExitCode::SUCCESS);
    }
    if report.damaged > 0 {
        terminal.info(&format!("{} of {} rows or tables are damaged", report.damaged, report.rows));
        terminal.info(&format!("hint: restore a backup from before: {restore}"));
    }
    match contents {
        Ok(_) if damaged_contents.is_empty() => {}
        Ok(directory) => {
            let (damaged, all) = (damaged_contents.len(), report.contents.len());
            terminal.info(&format!("{damaged} of {all} contents of files are missing or damaged"));
            let directory = directory.display();
            terminal.info(&format!("hint: backups have no contents; copy them back from a copy of '{directory}'"));
        }
        Err(_) => terminal.info(
            "hint: mount the directory that the nodes share here, and name it in store.shared_dir, as they do",
        ),
    }
    Ok(ExitCode::FAILURE)
}

/// The directory with the contents, or why it cannot be checked: if nodes share another directory than the
/// one that is seen here, all contents would be called missing.
fn contents_directory(
    store: &StoreLocation,
    files_dir: Option<&Path>,
    report: &StoreCheck,
) -> Result<Result<PathBuf, String>, CliError> {
    let Some(dir) = files_dir else {
        let unset = "store.shared_dir is not set";
        return Ok(if report.contents.is_empty() { Ok(PathBuf::new()) } else { Err(unset.to_owned()) });
    };
    if let StoreLocation::Database(url) = store {
        let known = shared_dir_beacon(url).map_err(|error| transfer_error(&error))?;
        if let Err((reason, _)) = doctor::shared_dir::open_beacon(dir, known.as_deref()) {
            return Ok(Err(format!("{}: {reason}", dir.display())));
        }
    }
    Ok(Ok(dir.join(CONTENTS_DIRECTORY)))
}

fn read(store: &StoreLocation) -> Result<StoreCheck, CliError> {
    match store {
        StoreLocation::File(file) => {
            quiet_panics();
            let missing = || {
                CliError::failed(format!("there is no store at '{}'", file.display()))
                    .hint("name its directory with --data-dir")
            };
            check_store(file).map_err(|error| explain(&error))?.ok_or_else(missing)
        }
        StoreLocation::Database(url) => check_database(url).map_err(|error| transfer_error(&error)),
    }
}
