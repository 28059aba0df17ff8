//! What a connection costs. Ignored by default: it opens thousands of sockets.

use crate::http::testing::{MemoryStore, app, request};
use crate::http::{BoundAddress, HttpListener, ShutdownSender, serve};
use crate::ports::{NewJob, Store};
use std::io::{Read, Write};
use std::sync::Arc;

/// Resident memory, bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}

#[test]
#[ignore = "opens 4,000 sockets; cargo test --lib http::tests::cost -- --ignored --nocapture"]
fn an_idle_stream_costs_at_most_8_kib() {
    const STREAMS: u64 = 2_000;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).max_blocking_threads(4).enable_all().build().expect("a runtime");
    let store = Arc::new(MemoryStore::default());
    let app = app(&store);
    let id = app.job_id(1);
    let spec = crate::http::v1::jobs::spec::from_prompt("x".into(), &app, crate::domain::id::UserId::SINGLE)
        .expect("a spec");
    let user = crate::domain::id::UserId::SINGLE;
    drop(store.submit(vec![NewJob { id, user, created_at_ms: 1, spec, in_existing: false }]));
    let (_stages, shutdown) = ShutdownSender::new();
    let address = "127.0.0.1:0".parse().expect("an address");
    let listener = runtime.block_on(async { HttpListener::tcp(address) }).expect("binds");
    let BoundAddress::Tcp(address) = *listener.bound() else { panic!("TCP") };
    drop(runtime.spawn(serve(listener, Arc::new(app), shutdown)));
    let ask = request(&format!("GET /v1/jobs/{id}/events"), &[], "");
    let open = || {
        let mut io = std::net::TcpStream::connect(address).expect("connects");
        io.write_all(&ask).expect("sends");
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains("queued") {
            let mut buffer = [0; 1024];
            let n = io.read(&mut buffer).expect("reads");
            seen.extend_from_slice(&buffer[..n]);
        }
        io
    };
    let mut held: Vec<_> = (0..100).map(|_| open()).collect();
    let before = resident();
    held.extend((0..STREAMS).map(|_| open()));
    let each = (resident() - before) / STREAMS;
    println!("an idle stream costs {each} bytes");
    assert!(each <= 8 * 1024, "{each} bytes");
}
