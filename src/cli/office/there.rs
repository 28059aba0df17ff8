//! Accounts and tokens at the server that holds the store.

use super::Office;
use crate::app::Control;
use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::jobs::path_segment;
use serde_json::{Map, Value};

/// Accounts that are asked for at once.
const PAGE: usize = 100;

/// A server that lets its own command line in.
pub(super) struct There {
    client: Client,
}

/// The way in to the server that wrote this.
pub(super) fn way_in(control: &Control) -> Result<Client, CliError> {
    let client = Client::new(&control.address, Some(&control.key))?;
    know(&client)?;
    Ok(client)
}

/// Whoever answers must be the server whose key this is, before a password goes there: a file that a killed server left
/// behind may name an address where somebody else listens by now.
fn know(client: &Client) -> Result<(), CliError> {
    let answer = client.get("/api/users?limit=1")?;
    if is_ours(&answer) {
        return Ok(());
    }
    let message = "what answers at the address in control.json is not the server that holds the store";
    Err(CliError::failed(message).hint("the server may just be starting: try again in a moment"))
}

impl There {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }
}

impl Office for There {
    fn register(&self, asked: Map<String, Value>) -> Result<Value, CliError> {
        self.client.post("/api/users", Some(&asked.into())).map(data)
    }

    fn users(&self) -> Result<Vec<Value>, CliError> {
        let (mut users, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.client.get(&format!("/api/users?limit={PAGE}{cursor}")).map(data)?;
            users.extend(items(page.get("items")));
            match page.get("next_cursor").and_then(Value::as_str) {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(users),
            }
        }
    }

    fn named(&self, name: &str) -> Result<Option<Value>, CliError> {
        let page = self.client.get(&format!("/api/users?username={}", encoded(name))).map(data)?;
        Ok(items(page.get("items")).into_iter().next())
    }

    fn change(&self, user: u32, asked: Map<String, Value>) -> Result<Value, CliError> {
        self.client.patch(&format!("/api/users/{user}"), &asked.into()).map(data)
    }

    fn tokens(&self, user: u32) -> Result<Vec<Value>, CliError> {
        let list = self.client.get(&format!("/api/users/{user}/tokens")).map(data)?;
        Ok(items(Some(&list)))
    }

    fn mint(&self, user: u32, asked: Map<String, Value>) -> Result<Value, CliError> {
        self.client.post(&format!("/api/users/{user}/tokens"), Some(&asked.into())).map(data)
    }

    fn revoke(&self, user: u32, token: &str) -> Result<(), CliError> {
        self.client.delete(&format!("/api/users/{user}/tokens/{}", path_segment(token)?)).map(drop)
    }
}

/// Whether this is a list of accounts as the server shows it.
fn is_ours(answer: &Value) -> bool {
    answer.get("code").and_then(Value::as_u64) == Some(0)
        && answer.pointer("/data/items").is_some_and(Value::is_array)
}

/// What an answer of `/api` holds.
fn data(mut answer: Value) -> Value {
    answer.get_mut("data").map(Value::take).unwrap_or_default()
}

fn items(list: Option<&Value>) -> Vec<Value> {
    list.and_then(Value::as_array).cloned().unwrap_or_default()
}

/// A value of a query, every byte that means something there escaped.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => encoded.push(char::from(byte)),
            other => encoded.extend(['%', digit(other >> 4), digit(other & 0xf)]),
        }
    }
    encoded
}

/// A hexadecimal digit.
fn digit(half: u8) -> char {
    char::from_digit(u32::from(half), 16).unwrap_or('0').to_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p9_whoever_answers_otherwise_gets_no_password() {
        let of = |text: &str| is_ours(&serde_json::from_str(text).expect("JSON"));
        assert!(of(r#"{"code":0,"message":"success","data":{"items":[],"next_cursor":null}}"#));
        for foreign in ["{}", "[]", "null", r#"{"code":401}"#, r#"{"code":0}"#, r#"{"data":{"items":[]}}"#] {
            assert!(!of(foreign), "{foreign}");
        }
    }

    #[test]
    fn names_of_any_script_stand_in_a_query() {
        assert_eq!(encoded("Ann_1.x-y"), "Ann_1.x-y");
        assert_eq!(encoded("a+b@c&é"), "a%2Bb%40c%26%C3%A9");
    }
}
