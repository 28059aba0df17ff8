//! Requests that are refused before their body has arrived: the next request of the connection is answered,
//! or the answer says that the connection closes.

use crate::http::testing::{Answer, Server, parse};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

const LATE: Duration = Duration::from_millis(50);

async fn read_answer(io: &mut DuplexStream) -> Answer {
    let mut text = String::new();
    let whole = |text: &str| {
        let (head, body) = text.split_once("\r\n\r\n")?;
        let length = parse(&format!("{head}\r\n\r\n")).header("content-length")?.parse::<usize>().ok()?;
        (body.len() >= length).then_some(())
    };
    while whole(&text).is_none() {
        let mut page = [0; 4_096];
        let reading = io.read(&mut page);
        let length = tokio::time::timeout(Duration::from_secs(5), reading).await.expect("an answer");
        let length = length.expect("reads");
        assert!(length > 0, "closed after {text:?}");
        text.push_str(&String::from_utf8_lossy(&page[..length]));
    }
    parse(&text)
}

/// Sends the head, a moment later the body, and the next request at once. Returns the first answer and the
/// connection.
async fn with_late_body(server: &Server, head: &str, body: &[u8]) -> (Answer, DuplexStream) {
    let mut io = server.connect();
    io.write_all(format!("{head}\r\nhost: localhost\r\n\r\n").as_bytes()).await.expect("sends");
    tokio::time::sleep(LATE).await;
    io.write_all(body).await.expect("sends");
    let answer = read_answer(&mut io).await;
    (answer, io)
}

#[tokio::test]
async fn after_a_small_body_that_nobody_read_the_connection_goes_on() {
    let server = Server::new();
    for (line, status) in [("POST /nothing", 404), ("POST /v1/models", 405), ("POST /v1/jobs?bad=1", 400)] {
        let head = format!("{line} HTTP/1.1\r\ncontent-length: 200");
        let (answer, mut io) = with_late_body(&server, &head, &[b'x'; 200]).await;
        assert_eq!((answer.status, answer.header("connection")), (status, None), "{line}");
        io.write_all(b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("sends");
        assert_eq!(read_answer(&mut io).await.status, 200, "after {line}");
    }
}

#[tokio::test]
async fn before_a_body_that_is_not_read_the_answer_says_that_the_connection_closes() {
    let server = Server::new();
    for header in
        ["content-length: 100000", "transfer-encoding: chunked", "content-length: 5\r\nexpect: 100-continue"]
    {
        let mut io = server.connect();
        let head = format!("POST /nothing HTTP/1.1\r\nhost: localhost\r\n{header}\r\n\r\n");
        io.write_all(head.as_bytes()).await.expect("sends");
        let answer = read_answer(&mut io).await;
        assert_eq!((answer.status, answer.header("connection")), (404, Some("close")), "{header}");
    }
}

#[tokio::test]
async fn a_small_body_that_never_comes_is_not_waited_for_long() {
    let server = Server::new();
    let head = "POST /nothing HTTP/1.1\r\ncontent-length: 200";
    let (answer, _io) = with_late_body(&server, head, b"only a part").await;
    assert_eq!((answer.status, answer.header("connection")), (404, Some("close")));
}
