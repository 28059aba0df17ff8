//! A scripted provider on loopback that speaks the OpenAI-style wire format and records its requests.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// One action of an answer.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Sends a chunk of this JSON as `data: …`.
    Data(Value),
    /// Sends these bytes as they are.
    Raw(String),
    /// Waits.
    Pause(Duration),
    /// Sends nothing more and keeps the connection open.
    Hang,
}

/// The answer to one request.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) acts: Vec<Act>,
}

/// Maps the JSON of a request and its number, from 0, to the answer.
pub(crate) type Script = Box<dyn Fn(&Value, usize) -> Answer + Send + Sync>;

/// The running upstream; it ends with the test process.
pub(crate) struct Upstream {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Upstream {
    /// Starts answering.
    pub(crate) fn start(script: impl Fn(&Value, usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (shared_requests, script): (_, Arc<Script>) = (Arc::clone(&requests), Arc::new(Box::new(script)));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (requests, script) = (Arc::clone(&shared_requests), Arc::clone(&script));
                std::thread::spawn(move || drop(serve(stream, &requests, &script)));
            }
        });
        Self { url, requests }
    }

    /// All requests in order.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.requests.lock().expect("no panic").clone()
    }
}

fn serve(stream: TcpStream, requests: &Mutex<Vec<Value>>, script: &Script) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    while let Some(request) = read_request(&mut reader)? {
        let number = {
            let mut requests = requests.lock().expect("no panic");
            requests.push(request.clone());
            requests.len() - 1
        };
        write_answer(&mut stream, &script(&request, number))?;
    }
    Ok(())
}

fn read_request(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<Value>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        assert!(!lower.starts_with("transfer-encoding"), "this upstream wants a content-length");
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(serde_json::from_slice(&body).unwrap_or(Value::Null)))
}

fn write_answer(stream: &mut TcpStream, answer: &Answer) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {} Scripted\r\ntransfer-encoding: chunked\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    for act in &answer.acts {
        match act {
            Act::Data(json) => write_chunk(stream, &format!("data: {json}\n\n"))?,
            Act::Raw(text) => write_chunk(stream, text)?,
            Act::Pause(time) => std::thread::sleep(*time),
            Act::Hang => loop {
                std::thread::sleep(Duration::from_secs(3600));
            },
        }
    }
    stream.write_all(b"0\r\n\r\n")
}

fn write_chunk(stream: &mut TcpStream, text: &str) -> std::io::Result<()> {
    stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
}

impl Answer {
    /// An event stream of these acts, ended with `[DONE]`.
    pub(crate) fn stream(mut acts: Vec<Act>) -> Self {
        acts.push(Act::Raw("data: [DONE]\n\n".into()));
        Self { status: 200, headers: vec![("content-type".into(), "text/event-stream".into())], acts }
    }

    /// A JSON error.
    pub(crate) fn error(status: u16, message: &str) -> Self {
        let body = json!({"error": {"message": message, "type": "server_error"}}).to_string();
        Self {
            status,
            headers: vec![("content-type".into(), "application/json".into())],
            acts: vec![Act::Raw(body)],
        }
    }

    /// Adds a header.
    pub(crate) fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Plain text, word by word.
    pub(crate) fn text(text: &str) -> Self {
        Self::paced_text(text, Duration::ZERO)
    }

    /// Plain text, one word every `pace`.
    pub(crate) fn paced_text(text: &str, pace: Duration) -> Self {
        let mut acts = Vec::new();
        for word in text.split_inclusive(' ') {
            acts.push(Act::Data(content(word)));
            if !pace.is_zero() {
                acts.push(Act::Pause(pace));
            }
        }
        acts.push(Act::Data(finish("stop")));
        Self::stream(acts)
    }

    /// Calls of tools, by name and arguments; ids are `call_<n>`.
    pub(crate) fn calls(calls: &[(&str, Value)]) -> Self {
        let list: Vec<Value> = calls
            .iter()
            .enumerate()
            .map(|(n, (name, arguments))| {
                let function = json!({"name": name, "arguments": arguments.to_string()});
                json!({"index": n, "id": format!("call_{n}"), "type": "function", "function": function})
            })
            .collect();
        let delta = json!({"choices": [{"index": 0, "delta": {"tool_calls": list}, "finish_reason": null}]});
        Self::stream(vec![Act::Data(delta), Act::Data(finish("tool_calls"))])
    }
}

/// A chunk of text.
pub(crate) fn content(text: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]})
}

/// A chunk of reasoning.
pub(crate) fn reasoning(text: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {"reasoning_content": text}, "finish_reason": null}]})
}

/// The chunk that ends an answer, with usage.
pub(crate) fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}],
           "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}})
}

/// Tool results that the request carries.
pub(crate) fn tool_results(request: &Value) -> Vec<Value> {
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    messages.into_iter().filter(|m| m["role"] == "tool").collect()
}
