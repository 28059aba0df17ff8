//! Clients that mean ill, or do not know better.

use crate::http::server::connection;
use crate::http::testing::{Server, read_all, request};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn p9_requests_from_foreign_web_pages_are_refused() {
    let server = Server::new();
    let host = "GET /healthz HTTP/1.1\r\nconnection: close\r\n";
    let evil = server.raw(format!("{host}host: evil.example\r\n\r\n")).await;
    assert_eq!((evil.status, evil.code().as_str()), (403, "host_not_allowed"));
    assert!(evil.body.contains("allowed_hosts"));
    assert_eq!(server.raw(format!("{host}\r\n")).await.status, 400, "no Host at all");
    let answer = server.ask("POST /v1/jobs", &["origin: http://evil.example"], "hi").await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "origin_not_allowed"));
    assert!(answer.body.contains("allowed_origins"));
    let answer = server.ask("GET /nothing", &["sec-fetch-site: cross-site"], "").await;
    assert_eq!(answer.status, 403, "before anything else");
    assert_eq!(server.ask("POST /v1/jobs", &["origin: http://localhost"], "hi").await.status, 202);
    assert_eq!(server.store.count(), 1);
}

#[tokio::test]
async fn p8_large_bodies_are_refused_before_they_are_sent() {
    let server = Server::with(|app| app.limits.body_bytes = 1_000);
    let head =
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 1001\r\n\r\n";
    let answer = server.raw(head).await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (413, "body_too_large"),
        "no 100 Continue, no waiting"
    );
    let chunk = format!("{:x}\r\n{}\r\n", 600, "x".repeat(600));
    let chunked = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
    assert_eq!(server.raw(format!("{chunked}{chunk}{chunk}")).await.status, 413);
    assert_eq!(server.ask("POST /v1/jobs", &[], &"x".repeat(1_000)).await.status, 202);
}

#[tokio::test]
async fn p8_request_heads_are_bounded() {
    let server = Server::new();
    let long = format!("x-long: {}", "x".repeat(40_000));
    assert_eq!(server.ask("GET /healthz", &[&long], "").await.status, 431);
    let many = vec!["a: b"; 120];
    assert_eq!(server.ask("GET /healthz", &many, "").await.status, 431);
    for bytes in [5_000, 31_000] {
        let answer = server.ask(&format!("GET /{}", "x".repeat(bytes)), &[], "").await;
        assert_eq!((answer.status, answer.code().as_str()), (414, "target_too_long"), "{bytes}");
    }
    for bytes in [40_000, 90_000] {
        let answer = server.ask(&format!("GET /{}", "x".repeat(bytes)), &[], "").await;
        assert!(matches!(answer.status, 414 | 431), "{bytes}: {}", answer.status);
    }
}

#[tokio::test]
async fn p8_the_head_limit_counts_the_request_line_and_not_the_body() {
    let server = Server::with(|app| app.limits.header_bytes = 8_192);
    let head = |bytes: usize| {
        let around = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx: \r\n\r\n".len();
        format!(
            "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx: {}\r\n\r\n",
            "y".repeat(bytes - around)
        )
    };
    assert_eq!(server.raw(head(8_192)).await.status, 200);
    assert_eq!(server.raw(head(8_193)).await.status, 431);
    let large = "z".repeat(100_000);
    assert_eq!(
        server.ask("POST /v1/jobs", &[], &large).await.status,
        202,
        "bodies have a bound of their own"
    );
    let mut io = server.connect();
    for _ in 0..2 {
        io.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("sends");
        assert!(io.read(&mut [0; 4096]).await.expect("reads") > 0);
    }
    io.write_all(head(9_000).as_bytes()).await.expect("sends");
    assert_eq!(read_all(io).await.status, 431, "on a connection that has served others as well");
}

#[tokio::test]
async fn p8_the_number_of_headers_is_limited_as_configured() {
    let server = Server::with(|app| app.limits.headers = 20);
    assert_eq!(server.ask("GET /healthz", &["a: b"; 18], "").await.status, 200);
    let answer = server.ask("GET /healthz", &["a: b"; 19], "").await;
    assert_eq!((answer.status, answer.code().as_str()), (431, "headers_too_large"));
    let server = Server::with(|app| app.limits.headers = 200);
    assert_eq!(server.ask("GET /healthz", &["a: b"; 198], "").await.status, 200);
    assert_eq!(server.ask("GET /healthz", &["a: b"; 199], "").await.status, 431);
}

#[tokio::test(start_paused = true)]
async fn p8_slow_heads_and_slow_bodies_time_out() {
    let server = Server::new();
    let mut io = server.connect();
    io.write_all(b"GET /healthz HTTP/1.1\r\nhost: loc").await.expect("sends");
    let mut rest = Vec::new();
    let closing = tokio::time::timeout(Duration::from_secs(15), io.read_to_end(&mut rest));
    closing.await.expect("closed after limits.header_timeout_s").expect("reads");
    let mut io = server.connect();
    io.write_all(&request("POST /v1/jobs", &["content-length: 9"], "")).await.expect("sends");
    let mut rest = String::new();
    let answer = tokio::time::timeout(Duration::from_secs(70), io.read_to_string(&mut rest));
    answer.await.expect("answered after limits.body_timeout_s").expect("reads");
    assert!(rest.starts_with("HTTP/1.1 408") && rest.contains("body_timeout"), "{rest}");
}

#[tokio::test]
async fn smuggled_requests_are_not_processed() {
    let server = Server::new();
    let hidden = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\nhi";
    for lengths in [
        "content-length: 100\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 5",
    ] {
        let first =
            format!("POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\n{lengths}\r\n\r\n2\r\nhi\r\n0\r\n\r\n");
        let answer = server.raw(format!("{first}{hidden}")).await;
        assert_eq!(answer.body.matches("HTTP/1.1").count(), 0, "one answer only: {}", answer.body);
        assert_eq!(answer.header("connection"), Some("close"));
    }
    assert!(server.store.count() <= 2, "the hidden ones were not run");
    for bad in [
        "content-length: 2\r\ncontent-length: 3",
        "content-length: +2",
        "transfer-encoding: chunked, identity",
        "content-length: 2, 2",
    ] {
        let answer =
            server.raw(format!("POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\n{bad}\r\n\r\nhi")).await;
        assert_eq!(answer.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn bytes_that_are_not_http_get_a_400() {
    let server = Server::new();
    for bytes in [
        "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nbad header\r\n\r\n",
    ] {
        let answer = server.raw(bytes).await;
        assert_eq!(answer.status, 400, "{bytes:?}");
    }
}

#[tokio::test]
async fn compressed_bodies_are_refused_with_a_message() {
    let server = Server::new();
    let answer = server.ask("POST /v1/jobs", &["content-encoding: gzip"], "hi").await;
    assert_eq!((answer.status, answer.code().as_str()), (415, "unsupported_encoding"));
}

#[tokio::test]
async fn a_connection_serves_many_requests() {
    let server = Server::new();
    let mut io = server.connect();
    let first = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\nhi";
    io.write_all(first.as_bytes()).await.expect("sends");
    io.write_all(&request("GET /healthz", &[], "")).await.expect("sends");
    let answer = read_all(io).await;
    assert_eq!(answer.status, 202);
    assert!(answer.body.contains("HTTP/1.1 200 OK") && answer.body.contains(r#"{"status":"ok"}"#));
}

#[tokio::test]
async fn p8_a_body_with_too_many_json_values_is_refused() {
    let server = Server::new();
    let zeros = format!(r#"{{"metadata":[0{}]}}"#, ",0".repeat(200_000));
    for headers in [&["content-type: application/json"][..], &[]] {
        let answer = server.ask("POST /v1/jobs", headers, &zeros).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_request"));
        assert!(answer.body.contains("more than 8096 JSON values"), "{}", answer.body);
    }
    let prompt = format!("{zeros} is what I got");
    assert_eq!(server.ask("POST /v1/jobs", &[], &prompt).await.status, 202, "no JSON, so a prompt");
    assert_eq!(server.store.count(), 1);
}

#[tokio::test]
async fn p8_concurrent_bodies_share_one_size_limit() {
    let server = Server::with(|app| app.limits.bodies_bytes = 1_000);
    let mut slow = server.connect();
    let most = "x".repeat(900);
    slow.write_all(&request("POST /v1/jobs", &["content-length: 901"], "")).await.expect("sends");
    slow.write_all(most.as_bytes()).await.expect("sends");
    tokio::time::sleep(Duration::from_millis(50)).await;
    // An eighth is a reserve for small bodies.
    let answer = server.ask("POST /v1/jobs", &[], &"y".repeat(300)).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "busy"));
    assert!(answer.header("retry-after").is_some() && answer.body.contains("limits.bodies_bytes"));
    assert_eq!(server.ask("POST /v1/jobs", &[], "small").await.status, 202);
    slow.write_all(b"x").await.expect("sends");
    assert_eq!(read_all(slow).await.status, 202);
    for _ in 0..3 {
        assert_eq!(server.ask("POST /v1/jobs", &[], &most).await.status, 202, "each place is given back");
    }
}

#[tokio::test(start_paused = true)]
async fn p8_a_body_that_stalls_while_bodies_fill_the_memory_is_refused_early() {
    let server = Server::with(|app| (app.limits.body_bytes, app.limits.bodies_bytes) = (90_000, 90_000));
    let mut io = server.connect();
    io.write_all(&request("POST /v1/jobs", &["content-length: 80000"], "")).await.expect("sends");
    io.write_all("x".repeat(50_000).as_bytes()).await.expect("sends");
    let answer = read_all(io).await;
    assert_eq!((answer.status, answer.code().as_str()), (408, "body_timeout"));
    assert!(answer.body.contains("too slowly"), "{}", answer.body);
}

#[tokio::test]
async fn p8_an_address_with_too_many_connections_learns_what_to_do() {
    let (near, far) = tokio::io::duplex(4_096);
    tokio::spawn(connection::refuse(far, 40));
    let answer = read_all(near).await;
    assert_eq!((answer.status, answer.code().as_str()), (429, "rate_limited"));
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert!(answer.body.contains("limits.connections = 40"), "{}", answer.body);
}
