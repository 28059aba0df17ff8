//! `POST /api/projects/{id}/search`: finds a literal text in the text files of a project.

use super::access::with_project;
use crate::domain::workspace::Workspace;
use crate::http::api::envelope;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::json;
use crate::http::request::values::WholeNumber;
use crate::http::response::HandlerResult;
use crate::ports::{SearchHit, SearchQuery, SearchResults};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The longest query, bytes.
pub(crate) const QUERY_BYTES: usize = 1_000;
/// Default number of files with matches.
const RESULTS: u64 = 50;
/// The most.
const RESULTS_MAX: u64 = 200;

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchRequest {
    query: Option<String>,
    path: Option<String>,
    max_results: Option<WholeNumber<1, RESULTS_MAX>>,
    case_sensitive: Option<bool>,
}

impl SearchRequest {
    fn into_query(self) -> Result<SearchQuery, ApiError> {
        let query = self.query.unwrap_or_default();
        if query.is_empty() || query.len() > QUERY_BYTES {
            let rule = format!("'query' must have 1 to {QUERY_BYTES} bytes: what is searched for");
            return Err(ApiError::value("query", rule));
        }
        let most = self.max_results.map_or(RESULTS, |most| most.0);
        Ok(SearchQuery {
            query,
            path: self.path.unwrap_or_default(),
            max_results: usize::try_from(most).unwrap_or_default(),
            case_sensitive: self.case_sensitive.unwrap_or(false),
            ..SearchQuery::default()
        })
    }
}

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ProjectSearch"))]
#[derive(Serialize)]
pub(crate) struct SearchResponse {
    query: String,
    results: Vec<SearchHitResponse>,
    /// Files with matches.
    total_matches: usize,
    /// There may be more.
    is_cut: bool,
}

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ProjectSearchHit"))]
#[derive(Serialize)]
struct SearchHitResponse {
    path: String,
    matches: Vec<SearchLineResponse>,
}

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ProjectSearchLine"))]
#[derive(Serialize)]
struct SearchLineResponse {
    line: u64,
    content: String,
}

pub(crate) async fn search(
    context: &ServerContext,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let project = with_project(context, &request, |_, project| Ok(project)).await?;
    let wanted = json::read::<SearchRequest>(context, &request, body).await?.into_query()?;
    let query = wanted.query.clone();
    let (app, owner) = (Arc::clone(&context.app), request.owner);
    let search = move || app.workspaces.search(&Workspace::from(&project), &wanted);
    let found = context.searches.of(owner).run(search).await??;
    Ok(envelope::data(view(query, found)))
}

fn view(query: String, found: SearchResults) -> SearchResponse {
    let hit = |SearchHit { path, matches }| {
        let matches = matches.into_iter().map(|(line, content)| SearchLineResponse { line, content });
        SearchHitResponse { path, matches: matches.collect() }
    };
    let results: Vec<SearchHitResponse> = found.hits.into_iter().map(hit).collect();
    SearchResponse { query, total_matches: results.len(), results, is_cut: found.is_cut }
}
