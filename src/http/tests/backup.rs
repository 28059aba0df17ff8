//! Fetching a backup: whole, and one at a time.

use crate::http::testing::{Server, read_all, request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn p8_one_backup_runs_at_a_time_and_arrives_completely() {
    let server = Server::new();
    let mut first = server.connect();
    first.write_all(&request("GET /v1/backup", &[], "")).await.expect("sends");
    // Its head is on its way, so the copy is made; its body is longer than the pipe.
    assert_eq!(first.read_u8().await.expect("a byte"), b'H');
    let second = server.get("/v1/backup").await;
    assert_eq!((second.status, second.code().as_str()), (409, "backup_running"), "{}", second.body);
    let answer = read_all(first).await;
    assert_eq!((answer.status, answer.header("content-length")), (200, Some("600000")));
    assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
    assert!(answer.header("content-disposition").is_some_and(|name| name.ends_with(".redb\"")));
    assert!(answer.body.len() == 600_000 && answer.body.bytes().all(|byte| byte == 7));
    assert_eq!(server.get("/v1/backup").await.status, 200, "the next one's turn");
    assert_eq!(server.ask("POST /v1/backup", &[], "").await.status, 405);
}

#[tokio::test]
async fn a_disconnected_client_frees_the_backup_permit() {
    let server = Server::new();
    let mut first = server.connect();
    first.write_all(&request("GET /v1/backup", &[], "")).await.expect("sends");
    assert_eq!(first.read_u8().await.expect("a byte"), b'H');
    drop(first);
    for _ in 0..2_000 {
        if server.get("/v1/backup").await.status == 200 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the turn is lost");
}
