//! Tavily's search API.

use super::{Found, Search, listed};
use crate::ports::{CancelToken, ToolError, Web, WebMethod};
use crate::tools::endpoint::{Question, ask_json, door};
use serde_json::{Value, json};

pub(super) fn ask(web: &dyn Web, search: Search<'_>, cancel: &CancelToken) -> Result<Vec<Found>, ToolError> {
    let url = door(search.base("https://api.tavily.com"), "/search")?;
    let body = json!({"query": search.query, "max_results": search.max_results}).to_string();
    let question = Question {
        method: WebMethod::Post("application/json".to_owned(), body.into_bytes()),
        headers: vec![("authorization".to_owned(), format!("Bearer {}", search.key()))],
        ..Question::plain(url, "Tavily", search.options.timeout_s)
    };
    Ok(read(&ask_json(web, question, cancel)?))
}

pub(super) fn read(answer: &Value) -> Vec<Found> {
    listed(answer.get("results").unwrap_or(&Value::Null), "content")
}
