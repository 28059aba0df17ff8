//! Stands between the store of one process and `PostgreSQL`: cuts connections, swallows the reply to a
//! commit, answers with an error, delays, and cuts a process off for good when it dies. It knows the messages
//! of the protocol as far as that needs.

use super::database::Schema;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tempfile::TempDir;

/// The name of a server's socket in its directory.
const SOCKET: &str = ".s.PGSQL.5432";
/// How long a slow statement waits: longer than groups of writes wait for locks.
const SLOW: Duration = Duration::from_millis(130);
/// SQLSTATE of a serialisation failure.
const SERIALIZATION_FAILURE: &str = "40001";
/// SQLSTATE of an internal error: what a dead process gets, which must not wait for a better database.
const INTERNAL_ERROR: &str = "XX000";
/// Statements without faults: heartbeats run at their own times, so a seed would not tell where a fault hits.
const HEARTBEAT: &str = "UPDATE nodes SET lease_until";
/// The question after a lost reply to a commit. A dead process may ask it, else it would ask for long.
const OUTCOME: &str = "SELECT number FROM commit_marks";

/// What goes wrong with a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatabaseFault {
    /// The connection is cut before the statement.
    Cut,
    /// The connection is cut before a commit.
    CutCommit,
    /// The connection is cut after a commit, before its reply.
    LostReply,
    /// Another transaction is in the way.
    Conflict,
    /// It takes long.
    Slow,
    /// A commit is confirmed and rolled back: no database does that.
    Lie,
}

/// The faults of one process at its database.
pub(crate) struct SqlProxy {
    shared: Arc<Shared>,
    directory: TempDir,
}

struct Shared {
    server: PathBuf,
    /// Nothing is passed on, and nothing is refused.
    is_frozen: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The world waits for a write or a read of the process.
    is_armed: bool,
    is_dead: bool,
    is_closed: bool,
    /// Statements until the end, and whether a commit takes place before it.
    end: Option<(u64, bool)>,
    /// Statements until the fault, how often it occurs, and what it is.
    fault: Option<(u64, u64, DatabaseFault)>,
    connections: Vec<[UnixStream; 2]>,
}

impl SqlProxy {
    /// A proxy in front of the schema's server.
    pub(crate) fn start(schema: &Schema) -> Self {
        let directory = TempDir::new().unwrap();
        let listener = UnixListener::bind(directory.path().join(SOCKET)).unwrap();
        let shared = Arc::new(Shared {
            server: schema.socket().join(SOCKET),
            is_frozen: AtomicBool::new(false),
            state: Mutex::new(State::default()),
        });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if serving.state().is_closed {
                    return;
                }
                let connection = Arc::clone(&serving);
                std::thread::spawn(move || drop(connection.serve(client)));
            }
        });
        Self { shared, directory }
    }

    /// The URL of a store in this schema behind the proxy.
    pub(crate) fn url(&self, schema: &Schema) -> String {
        let (socket, schema) = (self.directory.path().display(), schema.name());
        format!(
            "host={socket} user=postgres dbname=postgres sslmode=disable options='-csearch_path={schema}'"
        )
    }

    /// Runs `work`, whose statements may meet faults.
    pub(crate) fn strike_during<T>(&self, work: impl FnOnce() -> T) -> T {
        self.shared.state().is_armed = true;
        let result = work();
        self.shared.state().is_armed = false;
        result
    }

    /// Ends the process now.
    pub(crate) fn end(&self) {
        self.shared.state().die();
    }

    /// Ends all connections for good.
    pub(crate) fn close(&self) {
        let mut state = self.shared.state();
        state.is_closed = true;
        self.shared.is_frozen.store(false, Ordering::SeqCst);
        state.cut_all();
    }

    /// From now on nothing is passed on, and nothing is refused; or that has an end.
    pub(crate) fn freeze(&self, is_frozen: bool) {
        self.shared.is_frozen.store(is_frozen, Ordering::SeqCst);
    }

    /// Ends the process after this many statements. If the last one is a commit, it may take place.
    pub(crate) fn end_after(&self, statements: u64, commits: bool) {
        self.shared.state().end = Some((statements, commits));
    }

    /// Plans a fault: after `after` statements it occurs `times` times. Returns whether there was none yet.
    pub(crate) fn plan(&self, after: u64, times: u64, fault: DatabaseFault) -> bool {
        let mut state = self.shared.state();
        let is_free = state.fault.is_none();
        if is_free {
            state.fault = Some((after, times, fault));
        }
        is_free
    }

    /// Cancels all further faults.
    pub(crate) fn calm(&self) {
        let mut state = self.shared.state();
        (state.end, state.fault) = (None, None);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.shared.state().is_dead
    }
}

impl Drop for SqlProxy {
    fn drop(&mut self) {
        self.close();
        // Its thread sees that it is closed.
        drop(UnixStream::connect(self.directory.path().join(SOCKET)));
    }
}

/// What happens to a batch of messages.
enum Action {
    Forward,
    Wait,
    Refuse(&'static str),
    Cut,
    CutAfter,
    Lie,
    Die,
    DieAfter,
}

impl State {
    fn die(&mut self) {
        self.is_dead = true;
        self.cut_all();
    }

    fn cut_all(&mut self) {
        for socket in self.connections.drain(..).flatten() {
            drop(socket.shutdown(Shutdown::Both));
        }
    }

    fn decide(&mut self, batch: &Batch) -> Action {
        if batch.sql == "ROLLBACK" {
            // No server refuses it. The connection is used again.
            return Action::Forward;
        }
        if self.is_dead {
            let is_asked = !batch.runs || batch.sql.contains(OUTCOME);
            return if is_asked { Action::Forward } else { Action::Refuse(INTERNAL_ERROR) };
        }
        if !self.is_armed || !batch.runs || batch.sql.contains(HEARTBEAT) {
            return Action::Forward;
        }
        match &mut self.end {
            Some((0, true)) if batch.is_commit() => return Action::DieAfter,
            Some((0, _)) => return Action::Die,
            Some((left, _)) => *left -= 1,
            None => {}
        }
        self.fault(batch)
    }

    fn fault(&mut self, batch: &Batch) -> Action {
        let Some((after, times, fault)) = &mut self.fault else { return Action::Forward };
        if *after > 0 {
            *after -= 1;
            return Action::Forward;
        }
        let action = match fault {
            DatabaseFault::Cut => Action::Cut,
            DatabaseFault::Conflict => Action::Refuse(SERIALIZATION_FAILURE),
            DatabaseFault::Slow => Action::Wait,
            _ if !batch.is_commit() => return Action::Forward,
            DatabaseFault::CutCommit => Action::Cut,
            DatabaseFault::LostReply => Action::CutAfter,
            DatabaseFault::Lie => Action::Lie,
        };
        *times -= 1;
        if *times == 0 {
            self.fault = None;
        }
        action
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn wait_while_frozen(&self) {
        while self.is_frozen.load(Ordering::SeqCst) {
            wait(Duration::from_millis(20));
        }
    }

    fn serve(&self, mut client: UnixStream) -> io::Result<()> {
        self.wait_while_frozen();
        let mut server = UnixStream::connect(&self.server)?;
        let pair = [client.try_clone()?, server.try_clone()?];
        let mut state = self.state();
        if state.is_closed {
            return Ok(());
        }
        state.connections.push(pair);
        drop(state);
        let result = self.relay(&mut client, &mut server);
        drop((client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both)));
        result
    }

    /// Passes messages on, a batch and its replies at a time.
    fn relay(&self, client: &mut UnixStream, server: &mut UnixStream) -> io::Result<()> {
        let mut startup = vec![0; 4];
        client.read_exact(&mut startup)?;
        read_rest(client, &mut startup, 0)?;
        server.write_all(&startup)?;
        replies(server, Some(&mut *client))?;
        let mut prepared = HashMap::new();
        while let Some(batch) = Batch::read(client, &mut prepared)? {
            self.wait_while_frozen();
            let action = self.state().decide(&batch);
            match action {
                Action::Forward if batch.sql.contains("LISTEN") => return listen(&batch, client, server),
                Action::Forward => batch.forward(server, Some(&mut *client))?,
                Action::Wait => {
                    wait(SLOW);
                    batch.forward(server, Some(&mut *client))?;
                }
                Action::Refuse(code) => batch.refuse(code, client, server)?,
                Action::Cut => return Ok(()),
                Action::CutAfter => return batch.forward(server, None),
                Action::Lie => {
                    roll_back(server)?;
                    client.write_all(b"C\0\0\0\x0bCOMMIT\0Z\0\0\0\x05I")?;
                }
                Action::Die => {
                    self.state().die();
                    return Ok(());
                }
                Action::DieAfter => {
                    batch.forward(server, None)?;
                    self.state().die();
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// The messages of a client up to the point at which it waits for replies.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// The statements in it.
    sql: String,
    /// Whether it runs them; otherwise it only prepares them.
    runs: bool,
}

impl Batch {
    /// Reads a batch; `None` at the end of the connection. `prepared` holds statements by their names.
    fn read(client: &mut UnixStream, prepared: &mut HashMap<Vec<u8>, String>) -> io::Result<Option<Self>> {
        let mut batch = Self::default();
        loop {
            let start = batch.bytes.len();
            let mut kind = [0; 1];
            if client.read(&mut kind)? == 0 {
                return Ok(None);
            }
            batch.bytes.extend(kind);
            let mut length = [0; 4];
            client.read_exact(&mut length)?;
            batch.bytes.extend(length);
            read_rest(client, &mut batch.bytes, start + 1)?;
            let mut fields = batch.bytes[start + 5..].split(|byte| *byte == 0);
            let mut field = || fields.next().unwrap_or_default().to_vec();
            match kind[0] {
                b'P' => {
                    let (name, sql) = (field(), String::from_utf8(field()).unwrap());
                    batch.sql.push_str(&sql);
                    prepared.insert(name, sql);
                }
                b'B' => {
                    let (_, name) = (field(), field());
                    batch.sql.push_str(prepared.get(&name).map_or("", String::as_str));
                }
                b'E' => batch.runs = true,
                b'Q' => {
                    (batch.runs, batch.sql) = (true, String::from_utf8(field()).unwrap());
                    return Ok(Some(batch));
                }
                b'S' => return Ok(Some(batch)),
                b'X' => return Ok(None),
                _ => {}
            }
        }
    }

    fn is_commit(&self) -> bool {
        self.sql == "COMMIT"
    }

    /// Runs it; the client gets the replies, if it is given.
    fn forward(&self, server: &mut UnixStream, client: Option<&mut UnixStream>) -> io::Result<()> {
        server.write_all(&self.bytes)?;
        replies(server, client)
    }

    /// Answers with an error in place of the server.
    fn refuse(&self, code: &str, client: &mut UnixStream, server: &mut UnixStream) -> io::Result<()> {
        if self.is_commit() {
            // The client sends nothing more for this transaction.
            roll_back(server)?;
        }
        let fields = format!("SERROR\0VERROR\0C{code}\0Msimulated\0\0");
        let length = u32::try_from(fields.len() + 4).unwrap();
        let reply = [b"E", &length.to_be_bytes()[..], fields.as_bytes(), b"Z\0\0\0\x05E"].concat();
        client.write_all(&reply)
    }
}

/// Reads the rest of a message whose length is the last field of `bytes`, at `at`.
fn read_rest(stream: &mut UnixStream, bytes: &mut Vec<u8>, at: usize) -> io::Result<()> {
    let length = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let start = bytes.len();
    bytes.resize(start + length as usize - 4, 0);
    stream.read_exact(&mut bytes[start..])
}

/// Passes replies on until the server waits for the next batch.
fn replies(server: &mut UnixStream, mut client: Option<&mut UnixStream>) -> io::Result<()> {
    loop {
        let mut message = vec![0; 5];
        server.read_exact(&mut message)?;
        read_rest(server, &mut message, 1)?;
        if let Some(client) = &mut client {
            client.write_all(&message)?;
        }
        if message[0] == b'Z' {
            return Ok(());
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the database's locks have time-outs of real time")]
fn wait(time: Duration) {
    std::thread::sleep(time);
}

fn roll_back(server: &mut UnixStream) -> io::Result<()> {
    server.write_all(b"Q\0\0\0\x0dROLLBACK\0")?;
    replies(server, None)
}

/// Passes everything on: notifications come without a request.
fn listen(batch: &Batch, mut client: &UnixStream, mut server: &UnixStream) -> io::Result<()> {
    server.write_all(&batch.bytes)?;
    let (mut from, mut to) = (server.try_clone()?, client.try_clone()?);
    std::thread::spawn(move || {
        drop(io::copy(&mut from, &mut to));
        drop(to.shutdown(Shutdown::Both));
    });
    io::copy(&mut client, &mut server).map(drop)
}
