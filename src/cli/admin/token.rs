//! `nanoclaw token`: API tokens, whether the server runs or not. Stdout gets only the key: `export
//! NANOCLAW_TOKEN=$(nanoclaw token new)`.

use super::account_admin::{AccountAdmin, number, text};
use super::user::{named, object};
use crate::cli::error::CliError;
use crate::cli::terminal::Terminal;
use serde_json::{Value, json};

/// The owner unless another is named: the administrator of every store.
const DEFAULT_USER: &str = "default";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print its key, which is shown only once
    New(TokenNewArgs),
    /// List tokens
    List {
        /// Only tokens of this account
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke a token
    Revoke {
        /// The token's id, tok_…
        id: String,
        /// Print its id as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct TokenNewArgs {
    /// Owner; 'default' is the administrator of every store
    #[arg(long, value_name = "NAME", default_value = DEFAULT_USER)]
    user: String,
    /// Name of the token, such as its purpose
    #[arg(long, value_name = "TEXT", default_value = "")]
    name: String,
    /// Permissions: read, write, admin
    #[arg(long, value_delimiter = ',', default_value = "read,write")]
    scopes: Vec<String>,
    /// Lifetime, as in 12h or 30d [default: unlimited]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    expires_in: Option<u64>,
    /// Print the token and its key as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn token(
    admin: &dyn AccountAdmin,
    command: &TokenCommand,
    terminal: &Terminal,
) -> Result<(), CliError> {
    match command {
        TokenCommand::New(args) => create(admin, args, terminal),
        TokenCommand::List { user, json } => list(admin, user.as_deref(), *json, terminal),
        TokenCommand::Revoke { id, json } => revoke(admin, id, *json, terminal),
    }
}

fn create(admin: &dyn AccountAdmin, args: &TokenNewArgs, terminal: &Terminal) -> Result<(), CliError> {
    let owner = named(admin, &args.user)?;
    let body = json!({"name": args.name, "scopes": args.scopes, "expires_in_s": args.expires_in});
    let created = admin.create_token(number(&owner)?, object(body))?;
    if args.json {
        return Ok(terminal.line(&created.to_string())?);
    }
    terminal.info(&describe(&created, &args.user));
    Ok(terminal.line(text(&created, "key"))?)
}

fn list(
    admin: &dyn AccountAdmin,
    user: Option<&str>,
    json: bool,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let owners = match user {
        Some(name) => vec![named(admin, name)?],
        None => admin.users()?,
    };
    let mut tokens = Vec::new();
    for owner in &owners {
        for mut token in admin.tokens(number(owner)?)? {
            if let Some(token) = token.as_object_mut() {
                token.insert("user".to_owned(), text(owner, "username").into());
            }
            tokens.push(token);
        }
    }
    Ok(terminal.list(tokens, json, |token| describe(token, text(token, "user")))?)
}

/// Finds the owner of the token and revokes it: an id does not contain its owner.
fn revoke(admin: &dyn AccountAdmin, id: &str, json: bool, terminal: &Terminal) -> Result<(), CliError> {
    for owner in admin.users()? {
        let owner_number = number(&owner)?;
        if admin.tokens(owner_number)?.iter().any(|token| text(token, "id") == id) {
            admin.revoke(owner_number, id)?;
            let user = text(&owner, "username");
            if json {
                return Ok(terminal.line(&json!({"id": id, "user": user, "revoked": true}).to_string())?);
            }
            terminal.info(&format!("{id} of {user} is revoked"));
            return Ok(());
        }
    }
    Err(CliError::failed(format!("there is no token '{id}'")).hint("all there are: nanoclaw token list"))
}

/// One line: id, owner, scopes, end of the key, expiry, name.
fn describe(token: &Value, owner: &str) -> String {
    let scopes = token.get("scopes").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let scopes: Vec<&str> = scopes.iter().filter_map(Value::as_str).collect();
    let expiry = token.get("expires_at").and_then(Value::as_str).unwrap_or("for ever");
    let (id, hint, name) = (text(token, "id"), text(token, "hint"), text(token, "name"));
    format!("{id}  {owner:<16}  {:<16}  …{hint}  {expiry:<20}  {name}", scopes.join(","))
        .trim_end()
        .to_owned()
}

/// Seconds of a time such as `90s`, `15m`, `12h`, `30d` or `2w`.
fn seconds(time: &str) -> Result<u64, String> {
    let invalid = || "must be a whole number and a unit: s, m, h, d or w, as in 30d".to_owned();
    let unit = time.chars().next_back().ok_or_else(invalid)?;
    let unit_s = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return Err(invalid()),
    };
    let count = time.strip_suffix(unit).and_then(|count| count.parse::<u64>().ok()).ok_or_else(invalid)?;
    count.checked_mul(unit_s).filter(|seconds| *seconds > 0).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_needs_a_unit() {
        let read = |time: &str| seconds(time).ok();
        assert_eq!((read("90s"), read("15m"), read("12h")), (Some(90), Some(900), Some(43_200)));
        assert_eq!((read("30d"), read("2w")), (Some(2_592_000), Some(1_209_600)));
        for bad in
            ["", "30", "d", "-1d", "0d", "1.5h", "1y", "99999999999999999999d", "18446744073709551615w", "3é"]
        {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
