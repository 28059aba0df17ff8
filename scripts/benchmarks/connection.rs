//! A minimal HTTP client: one connection, one request at a time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// A keep-alive connection.
pub(crate) struct Connection {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
    /// The header with an API key, or nothing.
    authorization: String,
}

/// A response. Status 0 means that the server closed the connection.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Connection {
    pub(crate) fn open(address: &str) -> Self {
        let writer = TcpStream::connect(address).expect("connect");
        writer.set_nodelay(true).expect("nodelay");
        let reader = BufReader::new(writer.try_clone().expect("clone"));
        Self { reader, writer, authorization: String::new() }
    }

    /// Sends this API key with all further requests.
    pub(crate) fn set_key(&mut self, key: &str) {
        self.authorization = format!("authorization: Bearer {key}\r\n");
    }

    pub(crate) fn get(&mut self, path: &str) -> Reply {
        self.send("GET", path, "");
        self.read()
    }

    pub(crate) fn post(&mut self, path: &str, body: &str) -> Reply {
        self.send("POST", path, body);
        self.read()
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, body: &str) {
        let kind = if body.starts_with('{') { "content-type: application/json\r\n" } else { "" };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\n{}{kind}content-length: {}\r\n\r\n{body}",
            self.authorization,
            body.len()
        );
        // A closed connection shows when the response is read.
        drop(self.writer.write_all(request.as_bytes()));
    }

    /// Reads lines until one starts with this prefix.
    pub(crate) fn read_until(&mut self, prefix: &str) {
        while let line = self.read_line()
            && !line.starts_with(prefix)
        {
            assert!(!line.is_empty(), "the stream ended before '{prefix}'");
        }
    }

    /// Reads a line with its end. It is empty at the end of the stream.
    pub(crate) fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("a line");
        line
    }

    /// Reads the response of the oldest request that has none yet.
    pub(crate) fn read(&mut self) -> Reply {
        let (mut status, mut length, mut chunked) = (0, 0, false);
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).is_err() {
                break;
            }
            let lower = line.to_ascii_lowercase();
            if let Some(rest) = lower.strip_prefix("http/1.1 ") {
                status = rest.get(..3).and_then(|s| s.parse().ok()).unwrap_or(0);
            } else if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            } else if lower.starts_with("transfer-encoding: chunked") {
                chunked = true;
            } else if line == "\r\n" || line.is_empty() {
                break;
            }
        }
        let body = if chunked { self.read_chunks() } else { self.read_exactly(length) };
        Reply { status, body: String::from_utf8_lossy(&body).into_owned() }
    }

    fn read_exactly(&mut self, length: usize) -> Vec<u8> {
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body).expect("a body");
        body
    }

    fn read_chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line).expect("a chunk");
            let length = usize::from_str_radix(line.trim(), 16).expect("a length");
            body.extend(self.read_exactly(length));
            self.read_exactly(2);
            if length == 0 {
                return body;
            }
        }
    }
}
