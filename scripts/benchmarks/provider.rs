//! A provider on loopback that answers at once. Its two answers are prepared in advance, and it does not
//! parse requests, so that the figures measure its client.

use crate::upstream::{Act, Answer};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// The start of a message with a tool's result, as compact JSON and as Python writes it.
const RESULTS: [&str; 2] = ["\"role\":\"tool\"", "\"role\": \"tool\""];

/// The running provider; it ends with the process.
pub(crate) struct Provider {
    pub(crate) url: String,
}

/// Parts of an answer: bytes to write at once, and the pause after them.
type Script = Vec<(Vec<u8>, Duration)>;

impl Provider {
    /// Starts. Answers `first` to a request without a tool's result, and `then` to one with it.
    pub(crate) fn start(first: &Answer, then: &Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let scripts = Arc::new((written(first), written(then)));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let scripts = Arc::clone(&scripts);
                // The client may leave in the middle of an answer.
                std::thread::spawn(move || drop(serve(stream, &scripts)));
            }
        });
        Self { url }
    }
}

fn serve(stream: TcpStream, (first, then): &(Script, Script)) -> std::io::Result<()> {
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
        let asked = String::from_utf8_lossy(&body);
        let script = if RESULTS.iter().any(|begin| asked.contains(begin)) { then } else { first };
        for (bytes, pause) in script {
            stream.write_all(bytes)?;
            if !pause.is_zero() {
                std::thread::sleep(*pause);
            }
        }
    }
}

/// Joins the bytes between two pauses into one part.
fn written(answer: &Answer) -> Script {
    let mut head = format!("HTTP/1.1 {} Scripted\r\ntransfer-encoding: chunked\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head.push_str("\r\n");
    let (mut script, mut piece) = (Vec::new(), head.into_bytes());
    for act in &answer.acts {
        let text = match act {
            Act::Data(json) => format!("data: {json}\n\n"),
            Act::Raw(text) => text.clone(),
            Act::Pause(time) => {
                script.push((std::mem::take(&mut piece), *time));
                continue;
            }
            Act::Hang => panic!("an instant provider says something"),
        };
        piece.extend(format!("{:x}\r\n{text}\r\n", text.len()).bytes());
    }
    piece.extend(b"0\r\n\r\n");
    script.push((piece, Duration::ZERO));
    script
}
