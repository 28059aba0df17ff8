//! The bare program: a minimal server that keeps the same promise. hyper takes a job; a redb thread commits
//! job, queue key and event in groups; then the client gets 202. It validates and runs nothing. A GET is a
//! stream that sends one comment and waits. It runs in its own process, which is this binary again.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use redb::{Database, ReadableTable, TableDefinition};
use std::convert::Infallible;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::task::{Context, Poll};
use tokio::sync::{mpsc, oneshot};

/// The argument that makes this binary the bare program.
pub(crate) const FLAG: &str = "--bare-program";

const JOBS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("jobs");
const QUEUE: TableDefinition<'_, (u64, u64), ()> = TableDefinition::new("queue");
const EVENTS: TableDefinition<'_, (u64, u64), &[u8]> = TableDefinition::new("events");
/// The group size of the server.
const GROUP: usize = 1_024;
/// The HTTP threads of the server.
const THREADS: usize = 2;

/// A body: some bytes, then the end or endless silence.
struct Said {
    bytes: Option<Bytes>,
    stays: bool,
}

impl Body for Said {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.bytes.take() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None if self.stays => Poll::Pending,
            None => Poll::Ready(None),
        }
    }
}

type Write = (Bytes, oneshot::Sender<u64>);

/// The bare program, running.
pub(crate) struct Bare {
    pub(crate) address: String,
    child: Child,
    _dir: tempfile::TempDir,
}

impl Bare {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir_in(crate::server::scratch()).expect("a directory");
        let mut child = Command::new(std::env::current_exe().expect("this binary"))
            .arg(FLAG)
            .arg(dir.path().join("bare.redb"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("start the bare program");
        let mut address = String::new();
        BufReader::new(child.stdout.take().expect("its stdout"))
            .read_line(&mut address)
            .expect("its address");
        Self { address: address.trim().to_owned(), child, _dir: dir }
    }

    /// Its resident memory, KiB.
    pub(crate) fn resident_kb(&self) -> f64 {
        crate::processes::status_kb(self.child.id(), "VmRSS:")
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Serves until killed.
pub(crate) fn serve(file: &Path) {
    let database = Database::create(file).expect("a database");
    let (writes, channel) = mpsc::channel::<Write>(4_096);
    std::thread::spawn(move || write(&database, channel));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    runtime.expect("a runtime").block_on(async move {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        println!("{}", listener.local_addr().expect("an address"));
        loop {
            let (socket, _) = listener.accept().await.expect("a client");
            socket.set_nodelay(true).expect("nodelay");
            let writes = writes.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request| answer(request, writes.clone()));
                let http = hyper::server::conn::http1::Builder::new();
                drop(http.serve_connection(TokioIo::new(socket), service).await);
            });
        }
    });
}

async fn answer(
    request: Request<Incoming>,
    writes: mpsc::Sender<Write>,
) -> Result<Response<Said>, Infallible> {
    if request.method() == Method::GET {
        let mut reply = Response::new(Said { bytes: Some(Bytes::from_static(b": here\n\n")), stays: true });
        reply
            .headers_mut()
            .insert("content-type", hyper::header::HeaderValue::from_static("text/event-stream"));
        return Ok(reply);
    }
    let body =
        request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let (done, written) = oneshot::channel();
    writes.send((body, done)).await.expect("a writer");
    let id = written.await.expect("a commit");
    let mut reply = Response::new(Said { bytes: Some(format!("{{\"id\":{id}}}").into()), stays: false });
    *reply.status_mut() = StatusCode::ACCEPTED;
    Ok(reply)
}

/// Commits all waiting jobs together, then acknowledges them.
fn write(database: &Database, mut channel: mpsc::Receiver<Write>) {
    let mut last = 0;
    while let Some(first) = channel.blocking_recv() {
        let mut group = vec![first];
        while group.len() < GROUP
            && let Ok(next) = channel.try_recv()
        {
            group.push(next);
        }
        let writing = database.begin_write().expect("a transaction");
        {
            let mut jobs = writing.open_table(JOBS).expect("a table");
            let mut queue = writing.open_table(QUEUE).expect("a table");
            let mut events = writing.open_table(EVENTS).expect("a table");
            for (id, (body, _)) in (last + 1..).zip(&group) {
                jobs.insert(id, body.as_ref()).expect("a job");
                queue.insert((0, id), ()).expect("a place");
                events.insert((id, 1), br#"{"status":"queued"}"#.as_slice()).expect("an event");
            }
            assert!(jobs.last().expect("a read").is_some());
        }
        writing.commit().expect("a commit");
        for (_, done) in group {
            last += 1;
            let _sent = done.send(last);
        }
    }
}
