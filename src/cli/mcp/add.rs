//! `nanoclaw mcp add`: writes a server into the configuration file. The rest of the file stays as it is.

use super::config_text::{NewServer, add_server};
use crate::cli::error::CliError;
use crate::cli::terminal::Terminal;
use crate::config::{ConfigFormat, Sources};
use crate::mcp::McpServerOptions;
use serde_json::{Map, Value, json};
use std::fs::{OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// The file that is written if there is none.
const NEW_FILE: &str = "config.yml";
/// It may hold keys.
const NEW_FILE_MODE: u32 = 0o600;

#[derive(Debug, clap::Args)]
pub(crate) struct AddArgs {
    /// Name of the server; the names of its tools contain it
    name: String,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "url", conflicts_with = "url")]
    command: Vec<String>,
    /// The address of a server that runs elsewhere
    #[arg(long)]
    url: Option<String>,
    /// A variable of the program; '${NAME}' is read from the environment of 'nanoclaw serve'
    #[arg(short, long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A header of every request
    #[arg(long, value_name = "NAME: VALUE", requires = "url")]
    header: Vec<String>,
    /// Run the program without the sandbox, with all rights of the server's user
    #[arg(long, conflicts_with = "url")]
    no_sandbox: bool,
    /// Replace a server with the same name
    #[arg(long)]
    force: bool,
}

pub(super) fn add(sources: &Sources, args: &AddArgs, terminal: &Terminal) -> Result<(), CliError> {
    let entry = entry(args)?;
    let options: McpServerOptions = serde_json::from_value(Value::Object(entry.clone()))
        .map_err(|error| CliError::usage(format!("this server cannot be written: {error}")))?;
    if let Some(fault) = options.faults(&args.name).first() {
        let dot = if fault.key.is_empty() { "" } else { " " };
        let text = format!("{}{dot}{}: {}", fault.key, fault.value, fault.allowed);
        return Err(
            CliError::usage(text.trim_start_matches(": ").to_owned()).hint("see: nanoclaw mcp add --help")
        );
    }
    let named = sources.find_file().map_err(|error| CliError::config(error.to_string()))?;
    let path = named.unwrap_or_else(|| PathBuf::from(NEW_FILE));
    // A link stays a link.
    let path = path.canonicalize().unwrap_or(path);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(unwritable(&path, &error)),
    };
    let format = ConfigFormat::of(&path);
    let server = NewServer { name: &args.name, entry: &entry, replaces: args.force };
    let edited = add_server(&text, format, &server)
        .map_err(|error| CliError::failed(format!("{}: {error}", path.display())).hint(error.advice()))?;
    write(&path, &edited).map_err(|error| unwritable(&path, &error))?;
    terminal.line(&format!("added '{}' to {}", args.name, path.display()))?;
    terminal.info(&format!(
        "check it: nanoclaw mcp check {}; a running server uses it after a restart",
        args.name
    ));
    Ok(())
}

/// The keys of the server as the file holds them.
fn entry(args: &AddArgs) -> Result<Map<String, Value>, CliError> {
    let mut entry = Map::new();
    if let Some(url) = &args.url {
        entry.insert("url".to_owned(), json!(escape_dollars(url)));
    }
    if let Some((program, arguments)) = args.command.split_first() {
        entry.insert("command".to_owned(), json!(escape_dollars(program)));
        let arguments: Vec<String> = arguments.iter().map(|word| escape_dollars(word)).collect();
        if !arguments.is_empty() {
            entry.insert("args".to_owned(), json!(arguments));
        }
    }
    let variables = pairs(&args.env, '=', "--env takes NAME=VALUE")?;
    let headers = pairs(&args.header, ':', "--header takes 'NAME: VALUE'")?;
    for (key, pairs) in [("env", variables), ("headers", headers)] {
        if !pairs.is_empty() {
            entry.insert(key.to_owned(), Value::Object(pairs));
        }
    }
    if args.no_sandbox {
        entry.insert("sandbox".to_owned(), json!("off"));
    }
    Ok(entry)
}

fn pairs(words: &[String], separator: char, usage: &str) -> Result<Map<String, Value>, CliError> {
    let pair = |word: &String| {
        let (name, value) = word.split_once(separator).ok_or_else(|| CliError::usage(usage.to_owned()))?;
        Ok((name.trim().to_owned(), json!(escape_dollars(value.trim_start_matches(' ')))))
    };
    words.iter().map(pair).collect()
}

/// The file expands variables: `${NAME}` stays one, and every other dollar sign is escaped.
fn escape_dollars(text: &str) -> String {
    let is_variable = |rest: &str| {
        let name = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map(|(name, _)| name);
        name.is_some_and(|name| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        })
    };
    let mut parts = text.split('$');
    let mut escaped = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        escaped.push_str(if is_variable(part) { "$" } else { "$$" });
        escaped.push_str(part);
    }
    escaped
}

/// Replaces the file in one step. Owner and permissions stay.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let existing = std::fs::metadata(path).ok();
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(NEW_FILE_MODE).open(&part)?;
        file.write_all(text.as_bytes())?;
        if let Some(existing) = &existing {
            file.set_permissions(Permissions::from_mode(existing.mode() & 0o7777))?;
            chown(&part, Some(existing.uid()), Some(existing.gid()))?;
        }
        file.sync_all()?;
        std::fs::rename(&part, path)
    })();
    if written.is_err() {
        // The error of the writing counts.
        std::fs::remove_file(&part).ok();
    }
    written
}

fn unwritable(path: &Path, error: &io::Error) -> CliError {
    CliError::failed(format!("cannot change '{}': {error}", path.display())).hint(
        "name a file that you may write: --config FILE; the file of the service belongs to root: use sudo",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_stay_and_other_dollars_are_escaped() {
        for (text, escaped) in [
            ("${TOKEN}", "${TOKEN}"),
            ("pa$word", "pa$$word"),
            ("$", "$$"),
            ("${a-b}", "$${a-b}"),
            ("x", "x"),
        ] {
            assert_eq!(escape_dollars(text), escaped);
        }
    }

    #[test]
    fn a_written_file_keeps_its_permissions() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("config.yml");
        write(&path, "a").expect("writes");
        let mode = || std::fs::metadata(&path).expect("there").mode() & 0o777;
        assert_eq!(mode(), NEW_FILE_MODE);
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("sets");
        write(&path, "b").expect("writes");
        assert_eq!((mode(), std::fs::read_to_string(&path).expect("reads")), (0o640, "b".to_owned()));
        assert_eq!(std::fs::read_dir(dir.path()).expect("lists").count(), 1);
    }
}
