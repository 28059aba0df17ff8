//! `GET /v1/nodes`: the nodes that share the database, for administrators.

use crate::http::context::ServerContext;
use crate::http::request::context::RequestContext;
use crate::http::response::{self, HandlerResult};
use crate::http::v1::status::PercentilesMs;
use crate::ports::{CatalogueDigests, ClusterNode, ClusterView, Percentiles};
use hyper::StatusCode;
use serde::Serialize;
use std::sync::Arc;

// The nodes, and what an operator should look at.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct NodesResponse {
    object: &'static str,
    /// Empty without `store.url`: then one server has the store.
    data: Vec<NodeObject>,
    /// The layout of the database.
    layout: Option<i32>,
    /// Times from a commit on another node until the answering one has heard of it, since its start.
    notification_lag_ms: Option<PercentilesMs>,
    /// Differences between the nodes.
    warnings: Vec<String>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
struct NodeObject {
    /// Number of its lease.
    id: i64,
    name: String,
    /// `live`, or `lost`: its lease has ended.
    state: &'static str,
    /// Whether this node answers.
    is_self: bool,
    version: String,
    /// The newest layout of the database that it knows.
    layout: i32,
    /// Unix seconds, by the clock of the database.
    started_at: u64,
    /// Since its last heartbeat.
    beat_age_ms: Option<u64>,
    /// Rest of its lease.
    lease_ms: u64,
    /// Jobs that it runs.
    jobs: u64,
    /// Maximum connections that it makes to the database.
    connections: Option<u64>,
    /// Digest of its tools.
    tools: Option<String>,
    /// Digest of its models.
    models: Option<String>,
}

pub(crate) async fn list(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let app = Arc::clone(&context.app);
    let read = move || app.status.cluster().map(|view| (view, app.status.figures().notification_lag));
    let (view, lag) = context.app.blocking(request.user, read).await??;
    Ok(response::json(StatusCode::OK, &NodesResponse::new(view, lag)))
}

impl NodesResponse {
    /// The answer of a server, or of a command that reads the database itself.
    pub(crate) fn new(view: Option<ClusterView>, lag: Option<Percentiles>) -> Self {
        let warnings = view.as_ref().map_or_else(Vec::new, ClusterView::warnings);
        let layout = view.as_ref().map(|view| view.layout);
        let data = view.map_or_else(Vec::new, |view| {
            let own = view.own;
            view.nodes.into_iter().map(|node| NodeObject::of(node, own)).collect()
        });
        let notification_lag_ms = lag.map(PercentilesMs::of);
        Self { object: "list", data, layout, notification_lag_ms, warnings }
    }
}

impl NodeObject {
    fn of(node: ClusterNode, own: Option<i64>) -> Self {
        let state = if node.is_live() { "live" } else { "lost" };
        let ClusterNode { id, name, version, layout, beat_age_ms, lease_ms, connections, jobs, .. } = node;
        let CatalogueDigests { tools, models } = node.catalogue;
        Self {
            id,
            name,
            state,
            is_self: own == Some(id),
            version,
            layout,
            started_at: node.started_at_ms / 1_000,
            beat_age_ms,
            lease_ms,
            jobs,
            connections,
            tools,
            models,
        }
    }
}
