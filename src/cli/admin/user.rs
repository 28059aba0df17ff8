//! `nanoclaw user`: accounts, whether the server runs or not.

use super::account_admin::{AccountAdmin, number, text};
use super::password::password;
use crate::cli::error::CliError;
use crate::cli::replay::report::money;
use crate::cli::terminal::Terminal;
use serde_json::{Map, Value, json};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum UserCommand {
    /// Create an account; asks for its password
    Add(UserAddArgs),
    /// Print a link for the first account; it replaces the one before
    SetupLink {
        /// Print the link, its code and its expiry as JSON
        #[arg(long)]
        json: bool,
    },
    /// List all accounts
    List {
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Change a password; all sessions of the account end
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
    /// Block an account; its data stays
    Disable {
        /// The account's name
        name: String,
        /// Print the account as JSON
        #[arg(long)]
        json: bool,
    },
    /// Unblock an account
    Enable {
        /// The account's name
        name: String,
        /// Print the account as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct UserAddArgs {
    /// Name to log in with
    name: String,
    /// E-mail address
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

/// What to do with a code where the address of the console is not known.
const NO_LINK: &str =
    "; enter it on the console's first page, or send it as 'invite' to POST /api/auth/register";

pub(crate) fn user(
    admin: impl FnOnce() -> Result<Box<dyn AccountAdmin>, CliError>,
    command: &UserCommand,
    terminal: &Terminal,
) -> Result<(), CliError> {
    match command {
        UserCommand::Add(args) => add(admin, args, terminal),
        UserCommand::SetupLink { json } => setup_link(&admin()?.renew_setup_invite()?, *json, terminal),
        UserCommand::List { json } => Ok(terminal.list(admin()?.users()?, *json, describe)?),
        UserCommand::Passwd { name, password_stdin, json } => {
            // Read first: the store is not kept open while the user types.
            let password = password(*password_stdin, terminal)?;
            show(&change(&*admin()?, name, json!({"password": password.reveal()}))?, *json, terminal)
        }
        UserCommand::Disable { name, json } => {
            show(&change(&*admin()?, name, json!({"is_active": false}))?, *json, terminal)
        }
        UserCommand::Enable { name, json } => {
            show(&change(&*admin()?, name, json!({"is_active": true}))?, *json, terminal)
        }
    }
}

/// The account of this name; an unknown one is an error.
pub(crate) fn named(admin: &dyn AccountAdmin, name: &str) -> Result<Value, CliError> {
    admin.user_named(name)?.ok_or_else(|| {
        CliError::failed(format!("there is no user '{name}'")).hint("all there are: nanoclaw user list")
    })
}

fn add(
    admin: impl FnOnce() -> Result<Box<dyn AccountAdmin>, CliError>,
    args: &UserAddArgs,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let password = password(args.password_stdin, terminal)?;
    let role = if args.admin { "admin" } else { "user" };
    let body = json!({
        "username": args.name, "email": args.email, "role": role, "password": password.reveal(),
    });
    show(&admin()?.register(object(body))?, args.json, terminal)
}

fn setup_link(invite: &Value, json: bool, terminal: &Terminal) -> Result<(), CliError> {
    if json {
        return Ok(terminal.line(&invite.to_string())?);
    }
    let (code, link, expires_at) = (text(invite, "code"), text(invite, "link"), text(invite, "expires_at"));
    terminal.info(&format!(
        "it makes the administrator's account and is valid until {expires_at}; the one before no longer works{}",
        if link.is_empty() { NO_LINK } else { "" }
    ));
    Ok(terminal.line(if link.is_empty() { code } else { link })?)
}

fn change(admin: &dyn AccountAdmin, name: &str, body: Value) -> Result<Value, CliError> {
    admin.change(number(&named(admin, name)?)?, object(body))
}

fn show(user: &Value, json: bool, terminal: &Terminal) -> Result<(), CliError> {
    Ok(terminal.line(&if json { user.to_string() } else { describe(user) })?)
}

/// The value as an object.
pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// One line: number, name, role, state, e-mail address, and what it may use a day.
fn describe(user: &Value) -> String {
    let number = user.get("id").map(Value::to_string).unwrap_or_default();
    let is_active = user.get("is_active").and_then(Value::as_bool).unwrap_or_default();
    let state = if is_active { "active" } else { "disabled" };
    let line = format!(
        "{number:<5}  {:<24}  {:<5}  {state:<8}  {}",
        text(user, "username"),
        text(user, "role"),
        text(user, "email")
    );
    format!("{}{}", line.trim_end(), daily_quota(user))
}

/// The limits of a day in brackets; empty if there are none.
fn daily_quota(user: &Value) -> String {
    let limit = |name: &str| user.pointer(&format!("/quota/{name}")).and_then(Value::as_u64);
    let tokens = limit("tokens_per_day").map(|tokens| format!("{tokens} tokens"));
    let cost = limit("cost_micros_per_day").map(|micros| format!("a cost of {}", money(micros)));
    let limits: Vec<String> = [tokens, cost].into_iter().flatten().collect();
    if limits.is_empty() { String::new() } else { format!("  [{} a day]", limits.join(" and ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_line_shows_id_name_role_and_state() {
        let user = json!({"id": 2, "username": "ann", "role": "admin", "is_active": false, "email": null});
        assert_eq!(describe(&user), "2      ann                       admin  disabled");
        let bounded = json!({"id": 3, "username": "bob", "role": "user", "is_active": true,
            "quota": {"tokens_per_day": 5_000, "cost_micros_per_day": 1_500_000, "stored_bytes": null}});
        let line = describe(&bounded);
        assert!(line.ends_with("active  [5000 tokens and a cost of 1.500000 a day]"), "{line}");
    }
}
