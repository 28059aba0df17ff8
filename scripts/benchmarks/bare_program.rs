//! The bare program: a minimal server with the same durability. hyper takes a job; a redb thread commits job,
//! queue key and event in groups; then the client gets 202. With `?commits=N` it does so N times, one after
//! the other, as a job that ends before the answer needs. It validates and runs nothing. A GET opens a stream
//! that sends one comment and stays open. The program is this binary in a process of its own.

use crate::process::ChildProcess;
use crate::server::scratch_directory;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use redb::{Database, ReadableTable, TableDefinition};
use std::convert::Infallible;
use std::path::Path;
use std::pin::Pin;
use std::process::Command;
use std::task::{Context, Poll};
use tokio::sync::{mpsc, oneshot};

const JOBS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("jobs");
const QUEUE: TableDefinition<'_, (u64, u64), ()> = TableDefinition::new("queue");
const EVENTS: TableDefinition<'_, (u64, u64), &[u8]> = TableDefinition::new("events");
/// The group size of the server.
const GROUP: usize = 1_024;
/// The HTTP threads of the server.
const THREADS: usize = 2;

/// A response body: some bytes, then the end or an open stream without further bytes.
struct ResponseBody {
    bytes: Option<Bytes>,
    stays_open: bool,
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.bytes.take() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None if self.stays_open => Poll::Pending,
            None => Poll::Ready(None),
        }
    }
}

/// A job to commit and the channel for its id.
type WriteRequest = (Bytes, oneshot::Sender<u64>);

/// The running bare program.
pub(crate) struct BareProgram {
    pub(crate) address: String,
    // Dropped before the directory.
    pub(crate) process: ChildProcess,
    _directory: tempfile::TempDir,
}

impl BareProgram {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir_in(scratch_directory()).expect("a directory");
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command.arg("--bare-program").arg(directory.path().join("bare.redb"));
        let (process, address) = ChildProcess::start(&mut command);
        Self { address, process, _directory: directory }
    }
}

/// Serves until the process is killed.
pub(crate) fn serve(file: &Path) -> ! {
    let database = Database::create(file).expect("a database");
    let (writes, channel) = mpsc::channel::<WriteRequest>(4_096);
    std::thread::spawn(move || write_groups(&database, channel));
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
    })
}

async fn answer(
    request: Request<Incoming>,
    writes: mpsc::Sender<WriteRequest>,
) -> Result<Response<ResponseBody>, Infallible> {
    if request.method() == Method::GET {
        let mut reply =
            Response::new(ResponseBody { bytes: Some(Bytes::from_static(b": open\n\n")), stays_open: true });
        reply
            .headers_mut()
            .insert("content-type", hyper::header::HeaderValue::from_static("text/event-stream"));
        return Ok(reply);
    }
    let commits = commits(request.uri().query());
    let body =
        request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let mut id = 0;
    for _ in 0..commits {
        let (sender, receiver) = oneshot::channel();
        writes.send((body.clone(), sender)).await.expect("a writer");
        id = receiver.await.expect("a commit");
    }
    let mut reply =
        Response::new(ResponseBody { bytes: Some(format!("{{\"id\":{id}}}").into()), stays_open: false });
    *reply.status_mut() = StatusCode::ACCEPTED;
    Ok(reply)
}

/// The number in `commits=N`; 1 if it is missing.
fn commits(query: Option<&str>) -> u32 {
    let number = query.and_then(|query| query.strip_prefix("commits="));
    number.map_or(1, |number| number.parse().expect("a number of commits"))
}

/// Commits all waiting jobs together, then acknowledges them.
fn write_groups(database: &Database, mut channel: mpsc::Receiver<WriteRequest>) {
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
                queue.insert((0, id), ()).expect("a queue entry");
                events.insert((id, 1), br#"{"status":"queued"}"#.as_slice()).expect("an event");
            }
            assert!(jobs.last().expect("a read").is_some());
        }
        writing.commit().expect("a commit");
        for (_, sender) in group {
            last += 1;
            let _sent = sender.send(last);
        }
    }
}
