//! `GET /api/projects/{id}`: a project and what it holds. Where it lies on the host is told to administrators alone.

use super::view::{More, Stats, view};
use super::with_project;
use crate::domain::account::Role;
use crate::http::api::envelope;
use crate::http::auth::Caller;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::router::Call;
use crate::ports::{FileError, TreeStats};

/// The project.
pub(crate) async fn show(door: &Door, call: &Call) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let is_told = may_know_the_host(call.caller);
    let shown = with_project(door, call, move |room, project| {
        let stats = match room.workspaces.stats(&project) {
            // Somebody removed its directory on the host: it is as good as empty, and the project still there.
            Err(FileError::NotFound(_)) => TreeStats::default(),
            other => other?,
        };
        let stats = Some(Stats::of_project(stats));
        let absolute_path = is_told.then(|| room.workspaces.absolute(&project).display().to_string());
        Ok(view(room, project)?.with(More { absolute_path, stats }))
    });
    Ok(envelope::data(shown.await?))
}

/// The one user of single mode is an administrator as well.
fn may_know_the_host(caller: Caller) -> bool {
    caller.role == Role::Admin && caller.scopes.admin
}
