//! Hears what other nodes announce, on one connection that waits for notifications. Through a pooler in
//! transaction mode, no connection hears any: the node looks again and again instead.

use crate::ports::{Measurement, StoreError};
use crate::store::postgres::session::Columns;
use crate::store::postgres::shared::PostgresShared;
use crate::store::postgres::writer::announcement::Announcement;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

type ListenConnection = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// How long a new connection may take, with TLS and authentication.
const CONNECT_WITHIN: Duration = Duration::from_secs(15);

/// Pause before a lost connection is made again.
const RECONNECT_AFTER: Duration = Duration::from_millis(300);

/// Pause after a server that refused to be listened to.
const LISTEN_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// How often a node that hears nothing looks for what its readers wait for.
const POLL_EVERY: Duration = Duration::from_millis(200);

/// How often it looks for jobs and deliveries, and for readers.
const POLL_IDLE_EVERY: Duration = Duration::from_secs(2);

/// Looks until the store is gone.
pub(crate) async fn poll(shared: Weak<PostgresShared>) {
    let mut looked_at = Instant::now();
    loop {
        let Some(store) = shared.upgrade() else { return };
        let mut news = Announcement { is_everything: true, ..Announcement::default() };
        if looked_at.elapsed() >= POLL_IDLE_EVERY {
            looked_at = Instant::now();
            news = Announcement::everything();
        }
        let is_watched = !store.watches.keys().is_empty() || !store.batch_watches.keys().is_empty();
        hear(&store, &news);
        drop(store);
        tokio::time::sleep(if is_watched { POLL_EVERY } else { POLL_IDLE_EVERY }).await;
    }
}

/// Listens until the store is gone.
pub(crate) async fn listen(shared: Weak<PostgresShared>) {
    loop {
        let Some(store) = shared.upgrade() else { return };
        let (config, tls, channel) =
            (store.connections.config.clone(), store.connections.tls.clone(), store.channel.clone());
        drop(store);
        let connecting = tokio::time::timeout(CONNECT_WITHIN, config.connect(tls));
        if let Ok(Ok((client, connection))) = connecting.await {
            tokio::select! {
                () = deliver(&shared, connection) => {}
                () = subscribe(&shared, &client, &channel) => {}
            }
        }
        tokio::time::sleep(RECONNECT_AFTER).await;
    }
}

/// Hands on what arrives, until the connection or the store is gone.
async fn deliver(shared: &Weak<PostgresShared>, mut connection: ListenConnection) {
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        let Some(store) = shared.upgrade() else { return };
        let AsyncMessage::Notification(notification) = message else { continue };
        let heard = Announcement::decode(notification.payload());
        if let Some(heard) = heard.filter(|heard| heard.node != store.node.id()) {
            measure_lag(&store, heard.at_ms);
            hear(&store, &heard);
        }
    }
}

/// Counts the time since another node has committed; 0: it did not say when.
fn measure_lag(store: &PostgresShared, at_ms: u64) {
    if at_ms > 0 {
        let took_us = store.now_ms().saturating_sub(at_ms).saturating_mul(1_000);
        store.measure(Measurement::DatabaseAnswered { operation: "notification", took_us });
    }
}

/// Subscribes, and then never ends. Ends after a pause if the server refuses, as a standby does: the next
/// connection may reach one that does not.
async fn subscribe(shared: &Weak<PostgresShared>, client: &Client, channel: &str) {
    let quoted = channel.replace('"', "\"\"");
    if let Err(error) = client.batch_execute(&format!("LISTEN \"{quoted}\"")).await {
        tracing::debug!(%error, "cannot listen to other nodes");
        return tokio::time::sleep(LISTEN_AGAIN_AFTER).await;
    }
    if let Some(store) = shared.upgrade() {
        // Whatever was announced before is found by looking.
        hear(&store, &Announcement::everything());
    }
    std::future::pending::<()>().await;
}

fn hear(store: &Arc<PostgresShared>, heard: &Announcement) {
    store.hear(heard);
    if heard.is_everything {
        let looking = Arc::clone(store);
        store.connections.handle().spawn(async move {
            if let Err(error) = look(&looking).await {
                tracing::debug!(%error, "cannot look for changes of the watched jobs");
            }
        });
    }
    if heard.queue.has_ready_job {
        store.wake_job_writer();
    }
}

/// Wakes the readers of watched jobs that have new events.
async fn look(store: &PostgresShared) -> Result<(), StoreError> {
    for batch in store.batch_watches.keys() {
        store.batch_watches.touch(batch);
    }
    let watched: Vec<String> = store.watches.keys().iter().map(ToString::to_string).collect();
    if watched.is_empty() {
        return Ok(());
    }
    let client = store.connections.pool.get().await.map_err(|_| StoreError::Unreachable)?;
    let session = store.connections.session(&client);
    let sql = "SELECT w.id, (SELECT max(seq) FROM records WHERE job = w.id) FROM unnest($1::text[]) AS w(id)";
    for row in session.rows(sql, &[&watched]).await? {
        if let Some(seq) = row.optional_number(1)? {
            store.watches.bump(row.parsed(0)?, seq);
        }
    }
    Ok(())
}
