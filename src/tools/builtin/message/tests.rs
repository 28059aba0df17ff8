//! Each kind of channel over a web that only records, and mail over a server of three lines.

use super::*;
use crate::domain::tool::ToolChoice;
use crate::ports::{CancelToken, ToolScope, Unavailability, UrlTrust, WebMethod, WebRequest, WebResponse};
use crate::tools::ToolOptions;
use crate::tools::testing::{context, deps};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Mutex;

const CHANNELS: &str = r#"{
    "hook": {"type": "webhook", "url": "https://h.test/s3cret", "headers": {"x-key": "s3cret"}},
    "tg": {"type": "telegram", "bot_token": "12:s3cret", "chat_id": -100},
    "slack": {"type": "slack", "webhook_url": "https://s.test/s3cret"},
    "game": {"type": "discord", "webhook_url": "https://d.test/s3cret"},
    "phone": {"type": "ntfy", "url": "https://n.test/topic", "token": "s3cret"}
}"#;

/// Records the requests and responds with one status.
struct RecordingWeb {
    requests: Mutex<Vec<WebRequest>>,
    result: Result<u16, WebError>,
}

impl Web for RecordingWeb {
    fn send(&self, request: &WebRequest, _: &CancelToken) -> Result<WebResponse, WebError> {
        let mut requests = self.requests.lock().unwrap();
        requests.push(request.clone());
        let status = self.result.clone()?;
        // The second part of a message fails.
        let status = if requests.len() > 1 && status == 201 { 429 } else { status };
        Ok(WebResponse {
            url: String::new(),
            status,
            content_type: None,
            body: b"s3cret".to_vec(),
            permit: None,
        })
    }
}

fn tool(channels: &str, result: Result<u16, WebError>) -> (Box<dyn Tool>, Arc<RecordingWeb>) {
    let web = Arc::new(RecordingWeb { requests: Mutex::default(), result });
    let mut deps = deps();
    deps.web = Arc::<RecordingWeb>::clone(&web);
    let channels = serde_json::from_str(channels).expect("channels");
    deps.options = Arc::new(ToolOptions { channels, ..(*deps.options).clone() });
    (register(&deps), web)
}

fn send(tool: &dyn Tool, channel: &str, content: &str) -> Result<Value, String> {
    let Value::Object(arguments) = json!({"channel": channel, "content": content}) else { panic!() };
    tool.call(&arguments, &context(ToolChoice::All(true))).map_err(|error| error.to_string())
}

fn body(request: &WebRequest) -> Value {
    let WebMethod::Post(kind, body) = &request.method else { panic!("a post") };
    assert_eq!(kind, "application/json");
    serde_json::from_slice(body).expect("JSON")
}

#[test]
fn each_channel_type_gets_its_own_request_format() {
    let (tool, web) = tool(CHANNELS, Ok(204));
    for (channel, kind) in
        [("hook", "webhook"), ("tg", "telegram"), ("slack", "slack"), ("game", "discord"), ("phone", "ntfy")]
    {
        let sent = send(tool.as_ref(), channel, "Hi <!channel> & @everyone").expect(channel);
        assert_eq!(sent, json!({"sent": true, "channel": channel, "type": kind}));
    }
    let requests = web.requests.lock().unwrap();
    assert!(requests.iter().all(|request| request.trust == UrlTrust::Operator));
    let job = crate::domain::id::JobId::from_bits(1).to_string();
    let text = "Hi <!channel> & @everyone";
    assert_eq!(body(&requests[0]), json!({"content": text, "channel": "hook", "job_id": job}));
    assert_eq!(requests[0].headers, [("x-key".to_owned(), "s3cret".to_owned())]);
    assert_eq!(requests[1].url, "https://api.telegram.org/bot12:s3cret/sendMessage");
    assert_eq!(body(&requests[1]), json!({"chat_id": "-100", "text": text}));
    assert_eq!(body(&requests[2]), json!({"text": "Hi &lt;!channel&gt; &amp; @everyone"}));
    assert_eq!(body(&requests[3]), json!({"content": text, "allowed_mentions": {"parse": []}}));
    assert_eq!(requests[4].headers, [("authorization".to_owned(), "Bearer s3cret".to_owned())]);
    assert_eq!(requests[4].method, WebMethod::Post("text/plain; charset=utf-8".to_owned(), text.into()));
}

#[test]
fn p9_send_failures_name_the_status_and_hide_secrets() {
    let (refusing, _) = tool(CHANNELS, Ok(403));
    assert_eq!(
        send(refusing.as_ref(), "hook", "x").unwrap_err(),
        "Channel 'hook': the channel answered with status 403"
    );
    let (moved, _) = tool(CHANNELS, Ok(302));
    assert!(send(moved.as_ref(), "hook", "x").unwrap_err().contains("status 302"), "no redirect is success");
    let hidden = |text: &str| text.to_owned();
    for error in [
        WebError::BadUrl(hidden("https://h.test/s3cret")),
        WebError::Forbidden(hidden("s3cret")),
        WebError::Redirects(hidden("s3cret")),
        WebError::Unreachable(hidden("h.test/s3cret")),
        WebError::Timeout { timeout_s: 3 },
        WebError::TooLarge { max_bytes: 3 },
        WebError::Stopped,
    ] {
        let (tool, _) = tool(CHANNELS, Err(error));
        for channel in ["hook", "tg", "slack", "game", "phone"] {
            let reported = send(tool.as_ref(), channel, "x").unwrap_err();
            assert!(!reported.contains("s3cret") && !reported.contains(".test"), "{reported}");
        }
    }
    let channels: MessageChannels = serde_json::from_str(CHANNELS).unwrap();
    let shown = format!("{channels:?} {}", serde_json::to_string(&channels).unwrap());
    assert!(!shown.contains("s3cret"), "{shown}");
    let (tool, _) = tool(CHANNELS, Ok(200));
    assert!(!tool.spec().parameters.to_string().contains("s3cret"));
}

#[test]
fn p8_a_long_message_is_sent_in_parts_and_a_longer_one_is_refused() {
    let (tool_whole, web) = tool(CHANNELS, Ok(204));
    let long = "x".repeat(3_000);
    send(tool_whole.as_ref(), "game", &long).unwrap();
    let parts: Vec<Value> = web.requests.lock().unwrap().iter().map(body).collect();
    let text: String = parts.iter().filter_map(|part| part["content"].as_str()).collect();
    assert!(parts.len() == 2 && text == long);
    let (half, _) = tool(CHANNELS, Ok(201));
    let reported = send(half.as_ref(), "game", &long).unwrap_err();
    assert!(reported.ends_with("status 429; the first 1 of 2 parts were sent"), "{reported}");
    let (tool, web) = tool(CHANNELS, Ok(204));
    assert!(send(tool.as_ref(), "game", &"x".repeat(4_001)).unwrap_err().contains("4000 characters"));
    assert!(send(tool.as_ref(), "game", " \n").unwrap_err().contains("empty"));
    assert!(web.requests.lock().unwrap().is_empty());
}

#[test]
fn only_configured_channels_are_offered_and_accepted() {
    let (some, _) = tool(CHANNELS, Ok(200));
    let names = some.spec().parameters["properties"]["channel"]["enum"].clone();
    assert_eq!(names, json!(["game", "hook", "phone", "slack", "tg"]));
    let reported = send(some.as_ref(), "hok", "x").unwrap_err();
    assert!(reported.contains("no channel 'hok'") && reported.contains("'hook'"), "{reported}");
    let (none, _) = tool("{}", Ok(200));
    let unavailability = none.unavailability(&ToolScope::EVERY);
    assert!(
        matches!(unavailability, Some(Unavailability::Always(_)))
            && some.unavailability(&ToolScope::EVERY).is_none()
    );
    assert!(send(none.as_ref(), "x", "y").unwrap_err().contains("channels:"));
}

#[test]
fn invalid_channels_are_reported_with_their_key_and_without_secrets() {
    let faults = |text: &str| -> Vec<String> {
        let channels: MessageChannels = serde_json::from_str(text).expect(text);
        channels.faults().iter().map(ToString::to_string).collect()
    };
    assert_eq!(faults(CHANNELS), Vec::<String>::new());
    for (text, start) in [
        (r#"{"a b": {"type": "slack", "webhook_url": "https://x"}}"#, "channels.a b: "),
        (r#"{"a": {"type": "slack", "webhook_url": "s3cret"}}"#, "channels.a.webhook_url: '***'"),
        (r#"{"a": {"type": "webhook", "url": "ftp://s3cret"}}"#, "channels.a.url: '***'"),
        (
            r#"{"a": {"type": "telegram", "bot_token": "s3cret/../x", "chat_id": "1"}}"#,
            "channels.a.bot_token: '***'",
        ),
        (
            r#"{"a": {"type": "email", "host": "smtp://x", "from": "a@b.c", "to": ["a@b.c"]}}"#,
            "channels.a.host: ",
        ),
        (r#"{"a": {"type": "email", "host": "x", "from": "nobody", "to": ["a@b.c"]}}"#, "channels.a.from: "),
        (r#"{"a": {"type": "email", "host": "x", "from": "a@b.c", "to": []}}"#, "channels.a.to: "),
        (
            r#"{"a": {"type": "email", "host": "x", "from": "a@b.c", "to": ["a@b.c", "x\ny"]}}"#,
            "channels.a.to: ",
        ),
        (
            r#"{"a": {"type": "email", "host": "x", "username": "u", "from": "a@b.c", "to": ["a@b.c"]}}"#,
            "channels.a.username: ",
        ),
    ] {
        let found = faults(text);
        assert!(found.len() == 1 && found[0].starts_with(start) && !found[0].contains("s3cret"), "{found:?}");
    }
    for unknown in [
        r#"{"a": {"type": "pigeon"}}"#,
        r#"{"a": {"type": "slack", "webhook_url": "https://x", "colour": "red"}}"#,
        r#"{"a": {"type": "email", "host": "x", "from": "a@b.c", "to": [], "colour": "red"}}"#,
    ] {
        assert!(serde_json::from_str::<MessageChannels>(unknown).is_err(), "{unknown}");
    }
}

/// A mail server that takes one letter, or refuses recipients; what it was sent.
fn mail_server(recipient: &'static str) -> (u16, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut writer = stream.try_clone().unwrap();
        let mut lines = Vec::new();
        let mut in_data = false;
        writer.write_all(b"220 test\r\n").unwrap();
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { break };
            let verb = line.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
            let reply = match (in_data, verb.as_str()) {
                (true, ".") => "250 taken\r\n",
                (true, _) => "",
                (false, "RCPT") => recipient,
                (false, "DATA") => "354 go on\r\n",
                (false, "QUIT") => "221 bye\r\n",
                (false, _) => "250 fine\r\n",
            };
            in_data = if line == "." { false } else { in_data || verb == "DATA" };
            lines.push(line);
            if writer.write_all(reply.as_bytes()).is_err() {
                break;
            }
        }
        lines
    });
    (port, serving)
}

fn mail_channel(port: u16) -> String {
    json!({"mail": {
        "type": "email", "host": "127.0.0.1", "port": port, "tls": "none",
        "from": "NanoClaw <bot@example.org>", "to": ["me@example.org", "you@example.org"],
    }})
    .to_string()
}

#[test]
fn mail_has_only_configured_recipients_and_text_lines_add_no_headers() {
    let (port, serving) = mail_server("250 fine\r\n");
    let (tool, web) = tool(&mail_channel(port), Ok(200));
    let sent = send(tool.as_ref(), "mail", "Report\nBcc: victim@example.org\n\n.\nend").expect("sent");
    assert_eq!(sent, json!({"sent": true, "channel": "mail", "type": "email"}));
    let lines = serving.join().unwrap();
    let recipients: Vec<&String> = lines.iter().filter(|line| line.starts_with("RCPT")).collect();
    assert_eq!(recipients, ["RCPT TO:<me@example.org>", "RCPT TO:<you@example.org>"]);
    let head: Vec<&String> =
        lines.iter().skip_while(|line| *line != "DATA").take_while(|line| !line.is_empty()).collect();
    assert!(head.iter().any(|line| line.as_str() == "Subject: Report"), "{head:?}");
    assert!(!head.iter().any(|line| line.starts_with("Bcc")), "{head:?}");
    assert!(
        lines.contains(&"Bcc: victim@example.org".to_owned()) && lines.contains(&"end".to_owned()),
        "in the text"
    );
    assert!(web.requests.lock().unwrap().is_empty());
}

#[test]
fn refused_mail_reports_the_server_code() {
    let (port, serving) = mail_server("550 no such user me@example.org\r\n");
    let (tool_refused, _) = tool(&mail_channel(port), Ok(200));
    let reported = send(tool_refused.as_ref(), "mail", "x").unwrap_err();
    assert_eq!(reported, "Channel 'mail': the mail server refused it with code 550");
    drop(serving.join());
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (tool, _) = tool(&mail_channel(closed), Ok(200));
    assert!(send(tool.as_ref(), "mail", "x").unwrap_err().contains("could not be reached"));
}
