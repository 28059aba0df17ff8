//! A provider on loopback that answers at once. Its two answers are encoded in advance, and it does not parse
//! requests, so that the figures measure its client.

use crate::upstream::{Act, Answer};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The field that marks a tool's result, as compact JSON and as Python writes it.
const TOOL_ROLES: [&str; 2] = ["\"role\":\"tool\"", "\"role\": \"tool\""];

/// The running provider; it ends with the process.
pub(crate) struct Provider {
    pub(crate) url: String,
    script: Arc<Script>,
}

/// The two answers, and what was sent so far.
struct Script {
    first: EncodedAnswer,
    then: EncodedAnswer,
    calls: AtomicUsize,
    /// The times at which the parts of paced answers were sent.
    sent: Mutex<Vec<Instant>>,
}

/// Parts of an answer: bytes to write at once, and the pause after them.
type EncodedAnswer = Vec<(Vec<u8>, Duration)>;

impl Provider {
    /// Starts it. It answers `first` to a request without a tool's result, and `then` to one with it.
    pub(crate) fn start(first: &Answer, then: &Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let script = Arc::new(Script {
            first: encode(first),
            then: encode(then),
            calls: AtomicUsize::new(0),
            sent: Mutex::default(),
        });
        let shared_script = Arc::clone(&script);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let script = Arc::clone(&shared_script);
                // The client may disconnect within an answer.
                std::thread::spawn(move || drop(serve(stream, &script)));
            }
        });
        Self { url, script }
    }

    /// Calls until now.
    pub(crate) fn calls(&self) -> usize {
        self.script.calls.load(Ordering::Relaxed)
    }

    /// The times at which the parts of paced answers were sent, in order.
    pub(crate) fn sent(&self) -> Vec<Instant> {
        self.script.sent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A server's configuration with this provider as its only model.
    pub(crate) fn config(&self) -> String {
        format!("default_model: m\nmodels: [{{id: m, api_url: \"{}/v1\"}}]\n", self.url)
    }
}

fn serve(stream: TcpStream, script: &Script) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut stream, mut line, mut body) = (stream, String::new(), Vec::new());
    loop {
        let mut length = 0;
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().expect("a length");
            }
            if line == "\r\n" {
                break;
            }
        }
        body.resize(length, 0);
        reader.read_exact(&mut body)?;
        let request = String::from_utf8_lossy(&body);
        let has_tool_result = TOOL_ROLES.iter().any(|role| request.contains(role));
        script.calls.fetch_add(1, Ordering::Relaxed);
        for (bytes, pause) in if has_tool_result { &script.then } else { &script.first } {
            if !pause.is_zero() {
                script.sent.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
            }
            stream.write_all(bytes)?;
            if !pause.is_zero() {
                std::thread::sleep(*pause);
            }
        }
    }
}

/// Joins the bytes between two pauses into one part.
fn encode(answer: &Answer) -> EncodedAnswer {
    let mut head = format!("HTTP/1.1 {} Scripted\r\ntransfer-encoding: chunked\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head.push_str("\r\n");
    let (mut parts, mut part) = (Vec::new(), head.into_bytes());
    for act in &answer.acts {
        let text = match act {
            Act::Data(json) => format!("data: {json}\n\n"),
            Act::Raw(text) => text.clone(),
            Act::Pause(time) => {
                parts.push((std::mem::take(&mut part), *time));
                continue;
            }
            Act::Hang => panic!("an instant provider must not hang"),
        };
        part.extend(format!("{:x}\r\n{text}\r\n", text.len()).bytes());
    }
    part.extend(b"0\r\n\r\n");
    parts.push((part, Duration::ZERO));
    parts
}
