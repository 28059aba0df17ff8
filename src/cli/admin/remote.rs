//! Accounts and tokens through the server that has the store open.

use super::account_admin::AccountAdmin;
use crate::cli::client::ApiClient;
use crate::cli::client::address::path_segment;
use crate::cli::error::CliError;
use serde_json::{Map, Value};

/// Accounts read at once.
const PAGE: usize = 100;

pub(crate) struct RemoteAdmin(pub(super) ApiClient);

impl AccountAdmin for RemoteAdmin {
    fn register(&self, body: Map<String, Value>) -> Result<Value, CliError> {
        self.0.post("/api/users", Some(&body.into())).map(data)
    }

    fn users(&self) -> Result<Vec<Value>, CliError> {
        let (mut users, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.0.get(&format!("/api/users?limit={PAGE}{cursor}")).map(data)?;
            users.extend(items(page.get("items")));
            match page.get("next_cursor").and_then(Value::as_str) {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(users),
            }
        }
    }

    fn user_named(&self, name: &str) -> Result<Option<Value>, CliError> {
        let page = self.0.get(&format!("/api/users?username={}", encoded(name))).map(data)?;
        Ok(items(page.get("items")).into_iter().next())
    }

    fn change(&self, user: u32, body: Map<String, Value>) -> Result<Value, CliError> {
        self.0.patch(&format!("/api/users/{user}"), &body.into()).map(data)
    }

    fn tokens(&self, user: u32) -> Result<Vec<Value>, CliError> {
        let list = self.0.get(&format!("/api/users/{user}/tokens")).map(data)?;
        Ok(items(Some(&list)))
    }

    fn create_token(&self, user: u32, body: Map<String, Value>) -> Result<Value, CliError> {
        self.0.post(&format!("/api/users/{user}/tokens"), Some(&body.into())).map(data)
    }

    fn renew_setup_invite(&self) -> Result<Value, CliError> {
        self.0.post("/api/invites/setup", None).map(data)
    }

    fn revoke(&self, user: u32, token: &str) -> Result<(), CliError> {
        self.0.delete(&format!("/api/users/{user}/tokens/{}", path_segment(token)?)).map(drop)
    }
}

/// The `data` of a response of `/api`.
fn data(mut answer: Value) -> Value {
    answer.get_mut("data").map(Value::take).unwrap_or_default()
}

fn items(list: Option<&Value>) -> Vec<Value> {
    list.and_then(Value::as_array).cloned().unwrap_or_default()
}

/// A query value, percent-encoded.
fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_values_are_percent_encoded() {
        assert_eq!(encoded("Ann_1.x-y"), "Ann_1.x-y");
        assert_eq!(encoded("a+b@c&é"), "a%2Bb%40c%26%C3%A9");
    }
}
