//! `nanoclaw user`: accounts, whether the server runs or not. Owns the arguments and the lists; the rules are the server's.

use super::error::CliError;
use super::office::{Office, number, text};
use super::prompt::password;
use super::terminal::Terminal;
use serde_json::{Map, Value, json};

/// What `user` was asked.
#[derive(Debug, clap::Subcommand)]
pub(super) enum UserCommand {
    /// Make an account; asks for its password
    Add(AddArgs),
    /// List all accounts
    List {
        /// Print them as JSON
        #[arg(long)]
        json: bool,
    },
    /// Give an account another password; whoever is logged in with the old one is logged out
    Passwd {
        /// The account's name
        name: String,
        /// Read the password from stdin, one line
        #[arg(long)]
        password_stdin: bool,
        /// Print the account as JSON
        #[arg(long)]
        json: bool,
    },
    /// Let nobody in as this account any more; what it has stays
    Disable {
        /// The account's name
        name: String,
        /// Print the account as JSON
        #[arg(long)]
        json: bool,
    },
    /// Let a disabled account in again
    Enable {
        /// The account's name
        name: String,
        /// Print the account as JSON
        #[arg(long)]
        json: bool,
    },
}

/// What `user add` was asked.
#[derive(Debug, clap::Args)]
pub(super) struct AddArgs {
    /// What is logged in with
    name: String,
    /// Where its owner can be reached
    #[arg(long, value_name = "ADDRESS")]
    email: Option<String>,
    /// Make it an administrator; the first account is one in any case
    #[arg(long)]
    admin: bool,
    /// Read the password from stdin, one line
    #[arg(long)]
    password_stdin: bool,
    /// Print the account as JSON
    #[arg(long)]
    json: bool,
}

/// Does it, and prints the accounts that it was about.
pub(super) fn user(
    office: impl FnOnce() -> Result<Box<dyn Office>, CliError>,
    command: &UserCommand,
    terminal: &Terminal,
) -> Result<(), CliError> {
    match command {
        UserCommand::Add(args) => add(office, args, terminal),
        UserCommand::List { json } => list(&*office()?, *json, terminal),
        UserCommand::Passwd { name, password_stdin, json } => {
            // Asked for first: a store is not held open while somebody types.
            let password = password(*password_stdin, terminal)?;
            show(&change(&*office()?, name, json!({"password": password.reveal()}))?, *json, terminal)
        }
        UserCommand::Disable { name, json } => {
            show(&change(&*office()?, name, json!({"is_active": false}))?, *json, terminal)
        }
        UserCommand::Enable { name, json } => {
            show(&change(&*office()?, name, json!({"is_active": true}))?, *json, terminal)
        }
    }
}

/// The account of this name, which has to be there.
pub(super) fn named(office: &dyn Office, name: &str) -> Result<Value, CliError> {
    office.named(name)?.ok_or_else(|| {
        CliError::failed(format!("there is no user '{name}'")).hint("all there are: nanoclaw user list")
    })
}

fn add(
    office: impl FnOnce() -> Result<Box<dyn Office>, CliError>,
    args: &AddArgs,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let password = password(args.password_stdin, terminal)?;
    let role = if args.admin { "admin" } else { "user" };
    let asked = json!({
        "username": args.name, "email": args.email, "role": role, "password": password.reveal(),
    });
    show(&office()?.register(object(asked))?, args.json, terminal)
}

fn list(office: &dyn Office, json: bool, terminal: &Terminal) -> Result<(), CliError> {
    let users = office.users()?;
    if json {
        return Ok(terminal.line(&Value::from(users).to_string())?);
    }
    for user in &users {
        terminal.line(&describe(user))?;
    }
    Ok(())
}

fn change(office: &dyn Office, name: &str, asked: Value) -> Result<Value, CliError> {
    office.change(number(&named(office, name)?)?, object(asked))
}

fn show(user: &Value, json: bool, terminal: &Terminal) -> Result<(), CliError> {
    Ok(terminal.line(&if json { user.to_string() } else { describe(user) })?)
}

/// The object that a value is.
pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// A line on an account: number, name, role, whether it may come in, address.
fn describe(user: &Value) -> String {
    let number = user.get("id").map(Value::to_string).unwrap_or_default();
    let is_active = user.get("is_active").and_then(Value::as_bool).unwrap_or_default();
    let standing = if is_active { "active" } else { "disabled" };
    let line = format!(
        "{number:<5}  {:<24}  {:<5}  {standing:<8}  {}",
        text(user, "username"),
        text(user, "role"),
        text(user, "email")
    );
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_number_name_role_and_standing() {
        let user = json!({"id": 2, "username": "ann", "role": "admin", "is_active": false, "email": null});
        assert_eq!(describe(&user), "2      ann                       admin  disabled");
    }
}
