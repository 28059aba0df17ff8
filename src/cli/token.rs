//! `nanoclaw token`: API keys, whether the server runs or not. The key alone goes to stdout: `export NANOCLAW_TOKEN=$(nanoclaw
//! token new)`.

use super::error::CliError;
use super::office::{Office, number, text};
use super::terminal::Terminal;
use super::user::{named, object};
use serde_json::{Value, json};

/// Whose token it is when nobody is named: the administrator that every store has.
const USUAL_USER: &str = "default";

/// What `token` was asked.
#[derive(Debug, clap::Subcommand)]
pub(super) enum TokenCommand {
    /// Make a token and print its key, which is not shown again
    New(NewArgs),
    /// List tokens
    List {
        /// Only those of this account
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
        /// Print them as JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a token worthless
    Revoke {
        /// The token's id, tok_…
        id: String,
        /// Print its id as JSON
        #[arg(long)]
        json: bool,
    },
}

/// What `token new` was asked.
#[derive(Debug, clap::Args)]
pub(super) struct NewArgs {
    /// Whose it is; 'default' is an administrator that every store has
    #[arg(long, value_name = "NAME", default_value = USUAL_USER)]
    user: String,
    /// What it is for
    #[arg(long, value_name = "TEXT", default_value = "")]
    name: String,
    /// What it may be used for: read, write, admin
    #[arg(long, value_delimiter = ',', default_value = "read,write")]
    scopes: Vec<String>,
    /// How long it holds, as in 12h or 30d; for ever when absent
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    expires_in: Option<u64>,
    /// Print the token and its key as JSON
    #[arg(long)]
    json: bool,
}

/// Does it.
pub(super) fn token(
    office: &dyn Office,
    command: &TokenCommand,
    terminal: &Terminal,
) -> Result<(), CliError> {
    match command {
        TokenCommand::New(args) => mint(office, args, terminal),
        TokenCommand::List { user, json } => list(office, user.as_deref(), *json, terminal),
        TokenCommand::Revoke { id, json } => revoke(office, id, *json, terminal),
    }
}

fn mint(office: &dyn Office, args: &NewArgs, terminal: &Terminal) -> Result<(), CliError> {
    let owner = named(office, &args.user)?;
    let asked = json!({"name": args.name, "scopes": args.scopes, "expires_in_s": args.expires_in});
    let made = office.mint(number(&owner)?, object(asked))?;
    if args.json {
        return Ok(terminal.line(&made.to_string())?);
    }
    terminal.say(&describe(&made, &args.user));
    Ok(terminal.line(text(&made, "key"))?)
}

fn list(office: &dyn Office, user: Option<&str>, json: bool, terminal: &Terminal) -> Result<(), CliError> {
    let owners = match user {
        Some(name) => vec![named(office, name)?],
        None => office.users()?,
    };
    let mut all = Vec::new();
    for owner in &owners {
        for mut token in office.tokens(number(owner)?)? {
            if let Some(token) = token.as_object_mut() {
                token.insert("user".to_owned(), text(owner, "username").into());
            }
            all.push(token);
        }
    }
    if json {
        return Ok(terminal.line(&Value::from(all).to_string())?);
    }
    for token in &all {
        terminal.line(&describe(token, text(token, "user")))?;
    }
    Ok(())
}

/// An id does not say whose it is.
fn revoke(office: &dyn Office, id: &str, json: bool, terminal: &Terminal) -> Result<(), CliError> {
    for owner in office.users()? {
        let owner_number = number(&owner)?;
        if office.tokens(owner_number)?.iter().any(|token| text(token, "id") == id) {
            office.revoke(owner_number, id)?;
            let user = text(&owner, "username");
            if json {
                return Ok(terminal.line(&json!({"id": id, "user": user, "revoked": true}).to_string())?);
            }
            terminal.say(&format!("{id} of {user} is worthless now"));
            return Ok(());
        }
    }
    Err(CliError::failed(format!("there is no token '{id}'")).hint("all there are: nanoclaw token list"))
}

/// A line on a token: id, owner, scopes, how its key ends, when it ends, name.
fn describe(token: &Value, owner: &str) -> String {
    let scopes = token.get("scopes").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let scopes: Vec<&str> = scopes.iter().filter_map(Value::as_str).collect();
    let until = token.get("expires_at").and_then(Value::as_str).unwrap_or("for ever");
    let (id, hint, name) = (text(token, "id"), text(token, "hint"), text(token, "name"));
    format!("{id}  {owner:<16}  {:<16}  …{hint}  {until:<20}  {name}", scopes.join(",")).trim_end().to_owned()
}

/// A time as in `90s`, `15m`, `12h`, `30d` or `2w`.
fn seconds(time: &str) -> Result<u64, String> {
    let wrong = || "must be a whole number and a unit: s, m, h, d or w, as in 30d".to_owned();
    let unit = time.chars().next_back().ok_or_else(wrong)?;
    let unit_s = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return Err(wrong()),
    };
    let count = time.strip_suffix(unit).and_then(|count| count.parse::<u64>().ok()).ok_or_else(wrong)?;
    count.checked_mul(unit_s).filter(|seconds| *seconds > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
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
