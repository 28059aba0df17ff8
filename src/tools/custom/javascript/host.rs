//! The functions that a running handler may call: arguments, result, fetch, files. Each call is checked
//! against the permissions of the tool.

use super::handler_run::HandlerRun;
use super::permission::{FilePermission, ToolPermissions};
use crate::ports::{UrlTrust, WebMethod, WebRequest};
use crate::tools::text::has_word;
use nanoclaw_sandbox::HostCalls;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Headers that belong to the connection or would name another sender.
const RESERVED_HEADERS: &str = "\
    host content-length content-type connection transfer-encoding upgrade te expect accept-encoding";
/// Fetches of one run.
const MAX_FETCHES: usize = 16;
/// The longest body of a response.
const BODY_BYTES: usize = 1024 * 1024;
/// The longest result as JSON.
const RESULT_BYTES: usize = 2 * 1024 * 1024;
/// Headers of one fetch.
const MAX_HEADERS: usize = 32;

/// The host of one run.
pub(super) struct ToolHost {
    run: HandlerRun,
    permissions: ToolPermissions,
    state: Mutex<HostState>,
}

#[derive(Default)]
struct HostState {
    result: String,
    fetches: usize,
}

#[derive(Deserialize)]
struct FetchRequest {
    url: String,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: Option<String>,
}

#[derive(Deserialize)]
struct FileRequest {
    path: String,
}

#[derive(Deserialize)]
struct WriteFileRequest {
    path: String,
    text: String,
}

impl ToolHost {
    pub(super) fn new(run: HandlerRun, permissions: ToolPermissions) -> Self {
        Self { run, permissions, state: Mutex::default() }
    }

    /// The result of the handler; `None` if it has returned none.
    pub(super) fn take_result(&self) -> Option<Value> {
        let text = std::mem::take(&mut self.lock().result);
        serde_json::from_str(&text).ok()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HostState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append_result(&self, piece: &str) -> Result<String, String> {
        let mut state = self.lock();
        if state.result.len().saturating_add(piece.len()) > RESULT_BYTES {
            return Err(format!("the result has more than {RESULT_BYTES} bytes of JSON: return less"));
        }
        state.result.push_str(piece);
        Ok("null".to_owned())
    }

    fn fetch(&self, fetch: FetchRequest) -> Result<Value, String> {
        self.permissions.allow_fetch(&fetch.url)?;
        {
            let mut state = self.lock();
            state.fetches = state.fetches.saturating_add(1);
            if state.fetches > MAX_FETCHES {
                return Err(format!("a run may fetch {MAX_FETCHES} times at most"));
            }
        }
        let request = request(fetch)?;
        let response = self.run.web.send(&request, &self.run.cancel).map_err(|error| error.to_string())?;
        // A redirect may lead to a host that the tool may not read.
        self.permissions.allow_fetch(&response.url)?;
        Ok(json!({
            "status": response.status,
            "ok": (200..300).contains(&response.status),
            "url": response.url,
            "content_type": response.content_type,
            "body": String::from_utf8_lossy(&response.body),
        }))
    }

    fn may_read(&self) -> Result<(), String> {
        match self.permissions.files {
            FilePermission::Read | FilePermission::Write => Ok(()),
            FilePermission::None => {
                Err("this tool has no permissions.files: \"read\" or \"write\"".to_owned())
            }
        }
    }

    fn may_write(&self) -> Result<(), String> {
        match self.permissions.files {
            FilePermission::Write => Ok(()),
            _ => Err("this tool has no permissions.files: \"write\"".to_owned()),
        }
    }

    fn dispatch(&self, name: &str, arguments: &str) -> Result<String, String> {
        match name {
            "arguments" => Ok(self.run.arguments.clone()),
            "result" => self.append_result(arguments),
            "fetch" => self.fetch(read(arguments)?).map(|response| response.to_string()),
            "readFile" => {
                self.may_read()?;
                let FileRequest { path } = read(arguments)?;
                self.run.read_file(&path).map(|text| Value::String(text).to_string())
            }
            "listFiles" => {
                self.may_read()?;
                let FileRequest { path } = read(arguments)?;
                self.run.list_files(&path).map(|list| list.to_string())
            }
            "writeFile" => {
                self.may_write()?;
                let WriteFileRequest { path, text } = read(arguments)?;
                self.run.write_file(&path, &text).map(|size| size.to_string())
            }
            _ => Err(format!("the host knows no '{name}'")),
        }
    }
}

impl HostCalls for ToolHost {
    fn call(&self, name: &str, arguments: &str) -> Result<String, String> {
        if self.run.cancel.is_cancelled() {
            return Err("the call is over".to_owned());
        }
        self.dispatch(name, arguments)
    }
}

fn read<T: DeserializeOwned>(arguments: &str) -> Result<T, String> {
    serde_json::from_str(arguments).map_err(|error| format!("the host cannot read that: {error}"))
}

fn request(fetch: FetchRequest) -> Result<WebRequest, String> {
    let mut headers = Vec::new();
    let mut content_type = None;
    if fetch.headers.len() > MAX_HEADERS {
        return Err(format!("a fetch may have {MAX_HEADERS} headers at most"));
    }
    for (name, value) in fetch.headers {
        let name = name.to_ascii_lowercase();
        let is_token = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !is_token || value.chars().any(char::is_control) {
            return Err("a header's name is letters, digits and '-', its value one line".to_owned());
        }
        match name.as_str() {
            "content-type" => content_type = Some(value),
            reserved if has_word(RESERVED_HEADERS, reserved) => {
                return Err(format!("the header '{reserved}' is not a tool's to set"));
            }
            _ => headers.push((name, value)),
        }
    }
    let method = match (fetch.method.as_deref().unwrap_or("GET").to_ascii_uppercase().as_str(), fetch.body) {
        ("GET", None) => WebMethod::Get,
        ("GET", Some(_)) => return Err("a GET has no body: say method: \"POST\"".to_owned()),
        ("POST", body) => {
            let kind = content_type.unwrap_or_else(|| "application/json".to_owned());
            WebMethod::Post(kind, body.unwrap_or_default().into_bytes())
        }
        _ => return Err("fetch knows the methods GET and POST".to_owned()),
    };
    Ok(WebRequest { method, url: fetch.url, headers, trust: UrlTrust::Bound, max_bytes: BODY_BYTES })
}
