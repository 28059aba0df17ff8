//! A receiver of webhooks and spans on loopback that records every request byte by byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Arrival {
    /// A header's value; names in lower case.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value)
    }
}

/// An answer of the receiver.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReceiverReply {
    /// This status.
    Status(u16),
    /// This status, header lines and body.
    Answer(u16, &'static str, &'static str),
    /// No answer; the connection stays open.
    Nothing,
}

#[derive(Default)]
struct Arrivals {
    requests: Mutex<Vec<Arrival>>,
    changed: Condvar,
}

/// The running receiver; it ends with the test process.
pub(crate) struct Receiver {
    pub(crate) port: u16,
    arrivals: Arc<Arrivals>,
}

impl Receiver {
    /// Starts the receiver; the script maps the number of a request, from 0, to its answer.
    pub(crate) fn start(script: impl Fn(usize) -> ReceiverReply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let arrivals = Arc::new(Arrivals::default());
        let (shared_arrivals, script) = (Arc::clone(&arrivals), Arc::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (arrivals, script) = (Arc::clone(&shared_arrivals), Arc::clone(&script));
                std::thread::spawn(move || drop(serve(stream, &arrivals, &*script)));
            }
        });
        Self { port, arrivals }
    }

    /// Waits for at least `count` requests and returns all of them.
    pub(crate) fn arrivals(&self, count: usize) -> Vec<Arrival> {
        let requests = self.arrivals.requests.lock().expect("no panic");
        // On a database, a delivery that a killed node had taken is free again after a minute.
        let timeout = Duration::from_secs(120);
        let is_incomplete = |requests: &mut Vec<Arrival>| requests.len() < count;
        let (requests, waited) =
            self.arrivals.changed.wait_timeout_while(requests, timeout, is_incomplete).expect("no panic");
        assert!(!waited.timed_out(), "{} of {count} requests arrived", requests.len());
        requests.clone()
    }
}

fn serve(
    stream: TcpStream,
    arrivals: &Arrivals,
    script: &dyn Fn(usize) -> ReceiverReply,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    while let Some(arrival) = read_request(&mut reader)? {
        let number = {
            let mut requests = arrivals.requests.lock().expect("no panic");
            requests.push(arrival);
            arrivals.changed.notify_all();
            requests.len() - 1
        };
        match script(number) {
            ReceiverReply::Status(status) => {
                write!(stream, "HTTP/1.1 {status} Scripted\r\ncontent-length: 0\r\n\r\n")?;
            }
            ReceiverReply::Answer(status, head, body) => {
                let length = body.len();
                write!(stream, "HTTP/1.1 {status} Scripted\r\n{head}content-length: {length}\r\n\r\n{body}")?;
            }
            ReceiverReply::Nothing => loop {
                std::thread::park();
            },
        }
    }
    Ok(())
}

fn read_request(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<Arrival>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let path = line.strip_prefix("POST ").and_then(|rest| rest.split(' ').next()).expect("a POST").to_owned();
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut arrival = Arrival { path, headers, body: String::new() };
    let mut body = vec![0; arrival.header("content-length").parse().expect("a length")];
    reader.read_exact(&mut body)?;
    arrival.body = String::from_utf8(body).expect("UTF-8");
    Ok(Some(arrival))
}
