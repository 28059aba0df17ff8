//! Those who follow the results of one batch, or wait for its end, share what one of them reads.

use crate::http::testing::{MemoryBatch, Server, read_all, request};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, DuplexStream};

const READERS: usize = 50;

/// A server with one batch, and its readers. They have time to reach its end.
async fn readers(query: &str) -> (Server, Arc<MemoryBatch>, Vec<DuplexStream>) {
    let batch = Arc::new(MemoryBatch::new());
    let server = Server::with(|app| app.batches = Arc::<MemoryBatch>::clone(&batch));
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let mut io = server.connect();
        io.write_all(&request(&format!("GET /v1/batches/{}{query}", MemoryBatch::ID), &[], ""))
            .await
            .expect("sends");
        readers.push(io);
    }
    settle().await;
    (server, batch, readers)
}

async fn settle() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

#[tokio::test]
async fn followers_of_a_batch_read_each_change_once() {
    let (_server, batch, readers) = readers("/results?follow=true").await;
    let [before, _] = batch.reads();
    for ended in [1, 2, 70] {
        batch.end_lines(ended);
        settle().await;
    }
    // The pages with the lines of each change, of at most 64 lines, and one look behind them.
    let reads = batch.reads()[0] - before;
    assert!((1..=2 + 2 + 3).contains(&reads), "{reads}");
    batch.end_lines(100);
    for io in readers {
        let body = read_all(io).await.body;
        let ids: Vec<&str> = body
            .lines()
            .filter_map(|line| line.split("\"custom_id\":\"").nth(1)?.split('"').next())
            .collect();
        let expected: Vec<String> = (0..100).map(|line| format!("line-{line}")).collect();
        assert_eq!(ids, expected);
    }
}

#[tokio::test]
async fn those_who_wait_for_a_batch_look_once_at_each_change() {
    let (_server, batch, readers) = readers("?wait=60").await;
    let [_, before] = batch.reads();
    for ended in [1, 2, 70] {
        batch.end_lines(ended);
        settle().await;
    }
    let looks = batch.reads()[1] - before;
    assert!((1..=3).contains(&looks), "{looks}");
    batch.end_lines(100);
    for io in readers {
        assert_eq!(read_all(io).await.json()["status"], "completed");
    }
}
