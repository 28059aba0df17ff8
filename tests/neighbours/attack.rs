//! A whole rate limit of one user, on one operation. A quarter of the clients sends half of a request, a
//! quarter reads no answer, and the others read.

use super::fillers::{Content, FILLERS};
use super::possessions::Owner;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// `limits.user_requests_per_minute` by default.
const REQUESTS: usize = 600;
/// Threads that send them.
const SENDERS: usize = 4;

/// Statuses of requests that do no work.
const MALFORMED: [&str; 6] = ["400", "404", "405", "413", "415", "422"];

/// How one client behaves.
#[derive(Clone, Copy, PartialEq)]
enum Behaviour {
    SendsHalf,
    ReadsNothing,
    Reads,
}

impl Behaviour {
    fn of(number: usize) -> Self {
        [Self::SendsHalf, Self::ReadsNothing, Self::Reads, Self::Reads][number % 4]
    }
}

/// A prepared attack: the operation's targets and contents in turn.
pub(super) struct Attack<'o> {
    owner: &'o Owner<'o>,
    method: &'o str,
    fillers: Vec<(String, Content)>,
}

impl<'o> Attack<'o> {
    /// An attack on an operation, with new possessions where it changes or deletes them.
    pub(super) fn on(operation: &'o str, owner: &'o Owner<'o>) -> Self {
        let (method, _) = operation.split_once(' ').expect("a method");
        let fillers = FILLERS.iter().filter(|(filled, ..)| *filled == operation);
        let fillers = fillers.map(|(_, target, content)| (owner.prepared(target), *content)).collect();
        Self { owner, method, fillers }
    }

    /// Sends each kind of request once. One that is malformed, or names nothing, fills nothing: returns
    /// those.
    pub(super) fn malformed(&self) -> Vec<String> {
        let refused = (0..self.fillers.len()).filter_map(|number| {
            let (target, content) = &self.fillers[number];
            let mut connection = self.connect().expect("connects");
            let request = self.owner.request((self.method, target), *content, number);
            connection.write_all(&request).expect("sends");
            connection.set_read_timeout(Some(Duration::from_millis(500))).expect("a time limit");
            let mut response = [0; 2_048];
            // A provider that does not answer is good, too.
            let count = connection.read(&mut response).unwrap_or_default();
            let response = String::from_utf8_lossy(&response[..count]);
            let is_malformed = MALFORMED.contains(&response.get(9..12).unwrap_or_default());
            is_malformed.then(|| format!("{} {target}: {response}", self.method))
        });
        refused.collect()
    }

    fn connect(&self) -> Option<TcpStream> {
        TcpStream::connect(self.owner.tenants.server.url.strip_prefix("http://")?).ok()
    }

    /// Sends requests, and keeps their connections open.
    fn send_until(&self, is_over: &AtomicBool, next: &AtomicUsize, readers: &Mutex<Vec<TcpStream>>) {
        let mut held = Vec::new();
        while !is_over.load(Ordering::SeqCst) {
            self.send_next(next, readers, &mut held);
        }
    }

    /// Sends the next request, if one is left.
    fn send_next(&self, next: &AtomicUsize, readers: &Mutex<Vec<TcpStream>>, held: &mut Vec<TcpStream>) {
        let number = next.fetch_add(1, Ordering::SeqCst);
        if number >= REQUESTS {
            std::thread::sleep(Duration::from_millis(10));
            return;
        }
        let Some(connection) = self.send(number) else { return };
        match Behaviour::of(number) {
            Behaviour::Reads => readers.lock().expect("no panic").push(connection),
            _ => held.push(connection),
        }
    }

    /// Sends all requests while `act` runs, and keeps all connections open until it has ended.
    pub(super) fn beside<T>(&self, act: impl FnOnce() -> T) -> T {
        let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let readers = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let (next, is_over, readers) = (&next, &is_over, &readers);
            for _ in 0..SENDERS {
                scope.spawn(move || self.send_until(is_over, next, readers));
            }
            scope.spawn(move || read_all(readers, is_over));
            let result = act();
            is_over.store(true, Ordering::SeqCst);
            result
        })
    }

    fn send(&self, number: usize) -> Option<TcpStream> {
        let (target, content) = &self.fillers[number % self.fillers.len()];
        let request = self.owner.request((self.method, target), *content, number);
        let length = match Behaviour::of(number) {
            Behaviour::SendsHalf => request.len() / 2,
            _ => request.len(),
        };
        let mut connection = self.connect()?;
        connection.set_write_timeout(Some(Duration::from_millis(500))).expect("a time limit");
        // The server may refuse a part.
        drop(connection.write_all(&request[..length]));
        connection.set_nonblocking(true).expect("no blocking");
        Some(connection)
    }
}

/// Reads what comes, on all connections in turn.
fn read_all(readers: &Mutex<Vec<TcpStream>>, is_over: &AtomicBool) {
    let mut bytes = vec![0; 64 * 1024];
    while !is_over.load(Ordering::SeqCst) {
        let is_open = |connection: &mut TcpStream| match connection.read(&mut bytes) {
            Ok(count) => count > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
        readers.lock().expect("no panic").retain_mut(is_open);
        std::thread::sleep(Duration::from_millis(2));
    }
}
