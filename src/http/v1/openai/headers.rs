//! Headers with the settings of a job that `OpenAI`'s bodies have no field for.

use crate::domain::job::Priority;
use crate::domain::tool::Strictness;
use crate::domain::webhook::WebhookUrl;
use crate::http::error::ApiError;
use crate::http::request::quoted::quoted;
use crate::http::request::values::UnixMillis;
use crate::http::v1::jobs::spec::ToolsRequest;
use crate::http::v1::openai::failure::unsupported;
use hyper::HeaderMap;
use serde::Deserialize;
use serde_json::Value;

/// Which of the server's tools the model gets: `default`, `none`, or names and groups with commas.
const TOOLS: &str = "nanoclaw-tools";
/// The project of the tools.
const PROJECT: &str = "nanoclaw-project";
/// The sandbox level.
const STRICTNESS: &str = "nanoclaw-strictness";
/// 0 to 9.
const PRIORITY: &str = "nanoclaw-priority";
/// When the job starts: unix seconds or RFC 3339.
const RUN_AT: &str = "nanoclaw-run-at";
/// Where the end is reported.
const WEBHOOK: &str = "nanoclaw-webhook";

/// The settings that a request gives in headers.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobHeaders {
    pub(crate) tools: Option<ServerTools>,
    pub(crate) project_id: Option<String>,
    pub(crate) strictness: Option<Strictness>,
    pub(crate) priority: Option<Priority>,
    pub(crate) webhook_url: Option<WebhookUrl>,
    pub(crate) run_at: Option<UnixMillis>,
}

/// The server's tools that the model gets.
#[derive(Debug, Clone)]
pub(crate) enum ServerTools {
    None,
    Default,
    Named(Vec<String>),
}

impl ServerTools {
    /// The tools that a request names in its body, and those of the header. Without either, agents get the
    /// default set.
    pub(crate) fn choose(
        hosted: Vec<String>,
        header: Option<Self>,
        (is_none, is_agent): (bool, bool),
    ) -> Self {
        match header {
            _ if is_none => Self::None,
            Some(Self::Named(mut names)) => {
                names.extend(hosted);
                Self::Named(names)
            }
            Some(Self::Default) => Self::Default,
            Some(Self::None) | None if !hosted.is_empty() => Self::Named(hosted),
            None if is_agent => Self::Default,
            Some(Self::None) | None => Self::None,
        }
    }

    pub(crate) fn into_request(self) -> Option<ToolsRequest> {
        match self {
            Self::None => Some(ToolsRequest::All(false)),
            Self::Default => None,
            Self::Named(names) => Some(ToolsRequest::Named(names)),
        }
    }
}

impl JobHeaders {
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let text = |name: &'static str| text(headers, name);
        Ok(Self {
            tools: text(TOOLS)?.map(tools).transpose()?,
            project_id: text(PROJECT)?.map(str::to_owned),
            strictness: text(STRICTNESS)?.map(strictness).transpose()?,
            priority: text(PRIORITY)?.map(priority).transpose()?,
            webhook_url: text(WEBHOOK)?.map(webhook_url).transpose()?,
            run_at: text(RUN_AT)?.map(run_at).transpose()?,
        })
    }

    /// Fails at a start in the future where the client waits for the answer.
    pub(crate) fn check_waits(&self) -> Result<(), ApiError> {
        if self.run_at.is_none() {
            return Ok(());
        }
        let rule =
            format!("'{RUN_AT}' needs 'background': true of POST /v1/responses: nobody waits for so long");
        Err(unsupported(RUN_AT, rule))
    }

    /// Names the header in the error of a job that these headers describe.
    pub(crate) fn name(error: ApiError) -> ApiError {
        match error {
            ApiError::Invalid { message, param: Some(param), code } => {
                let header = match param.as_str() {
                    "strictness" => STRICTNESS,
                    "webhook_url" => WEBHOOK,
                    tool if tool.starts_with("tools[") => TOOLS,
                    _ => &param,
                };
                ApiError::Invalid { message, param: Some(header.to_owned()), code }
            }
            other => other,
        }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, ApiError> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = value.to_str().map(str::trim).unwrap_or_default();
    if text.is_empty() {
        return Err(ApiError::value(
            name,
            format!("the header '{name}' must have a text of ASCII characters"),
        ));
    }
    Ok(Some(text))
}

fn tools(text: &str) -> Result<ServerTools, ApiError> {
    match text {
        "none" => return Ok(ServerTools::None),
        "default" => return Ok(ServerTools::Default),
        _ => {}
    }
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    if names.iter().any(String::is_empty) {
        let rule = format!("'{TOOLS}' must be default, none, or names with commas between them");
        return Err(ApiError::value(TOOLS, rule));
    }
    Ok(ServerTools::Named(names))
}

fn strictness(text: &str) -> Result<Strictness, ApiError> {
    let found = Strictness::ALL.into_iter().find(|level| level.name() == text);
    let names = Strictness::ALL.map(Strictness::name).join(", ");
    let rule = || format!("'{STRICTNESS}' must be one of {names}, not {}", quoted(text));
    found.ok_or_else(|| ApiError::value(STRICTNESS, rule()))
}

fn webhook_url(text: &str) -> Result<WebhookUrl, ApiError> {
    let read = WebhookUrl::try_from(text.to_owned());
    read.map_err(|rule| ApiError::value(WEBHOOK, format!("'{WEBHOOK}' {rule}")))
}

fn run_at(text: &str) -> Result<UnixMillis, ApiError> {
    let seconds = text.parse::<f64>().ok().map(Value::from);
    let read = UnixMillis::deserialize(seconds.unwrap_or_else(|| text.into()));
    read.map_err(|rule: serde_json::Error| ApiError::value(RUN_AT, format!("'{RUN_AT}' {rule}")))
}

fn priority(text: &str) -> Result<Priority, ApiError> {
    let found = text.parse().ok().and_then(Priority::new);
    let rule = || format!("'{PRIORITY}' must be a whole number from 0 to 9, not {}", quoted(text));
    found.ok_or_else(|| ApiError::value(PRIORITY, rule()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&'static str, &str)]) -> Result<JobHeaders, ApiError> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().expect("a value"));
        }
        JobHeaders::of(&headers)
    }

    #[test]
    fn each_header_is_read() {
        let all = [
            (TOOLS, "calculator, web"),
            (PROJECT, "proj_1"),
            (STRICTNESS, "strict"),
            (PRIORITY, "0"),
            (RUN_AT, "1800000000"),
        ];
        let read = read(&all).expect("headers");
        assert!(matches!(read.tools, Some(ServerTools::Named(names)) if names == ["calculator", "web"]));
        assert_eq!((read.project_id.as_deref(), read.strictness), (Some("proj_1"), Some(Strictness::Strict)));
        assert_eq!(read.priority.map(Priority::level), Some(0));
        assert_eq!(read.run_at, Some(UnixMillis(1_800_000_000_000)));
        let same = [(RUN_AT, "2027-01-15T08:00:00Z")];
        assert_eq!(super::tests::read(&same).expect("a time").run_at, Some(UnixMillis(1_800_000_000_000)));
    }

    #[test]
    fn a_bad_header_is_refused_by_name() {
        for (name, value) in [
            (TOOLS, "a,,b"),
            (TOOLS, " "),
            (STRICTNESS, "lax"),
            (PRIORITY, "10"),
            (PRIORITY, "high"),
            (WEBHOOK, "ftp://x"),
            (RUN_AT, "tomorrow"),
            (RUN_AT, "-1"),
            (RUN_AT, "NaN"),
        ] {
            let error = read(&[(name, value)]).expect_err("refused");
            assert_eq!(error.param(), Some(name), "{error}");
        }
    }
}
