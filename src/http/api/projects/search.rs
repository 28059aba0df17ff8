//! `POST /api/projects/{id}/search`: a literal text in the project's text files.

use super::{blocking, with_project};
use crate::http::api::envelope;
use crate::http::api::object::object;
use crate::http::arriving::Arriving;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::router::Call;
use crate::http::v1::field::Fields;
use crate::ports::{SearchHit, SearchQuery, SearchResults};
use serde::Serialize;
use serde_json::{Map, Value};

/// The longest text that is searched for, bytes.
pub(crate) const QUERY_BYTES: usize = 1_000;
/// Files with matches, when nobody says how many.
const RESULTS: u64 = 50;
/// The most.
const RESULTS_MAX: u64 = 200;
/// What can be said of a search.
pub(crate) const KNOWN: &[&str] = &["query", "path", "max_results", "case_sensitive"];

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ProjectSearch"))]
#[derive(Serialize)]
pub(crate) struct View {
    query: String,
    results: Vec<Hit>,
    /// Files with matches.
    total_matches: usize,
    /// There may be more.
    is_cut: bool,
}

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ProjectSearchHit"))]
#[derive(Serialize)]
struct Hit {
    path: String,
    matches: Vec<Match>,
}

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ProjectSearchLine"))]
#[derive(Serialize)]
struct Match {
    line: u64,
    content: String,
}

/// Searches.
pub(crate) async fn search(door: &Door, call: &Call, body: Arriving) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let project = with_project(door, call, |_, project| Ok(project)).await?;
    let wanted = read(object(door, call, body).await?)?;
    let query = wanted.query.clone();
    let found = blocking(door, move |room| Ok(room.workspaces.search(&project, &wanted)?)).await?;
    Ok(envelope::data(view(query, found)))
}

/// What is searched for.
pub(crate) fn read(map: Map<String, Value>) -> Result<SearchQuery, Error> {
    let mut fields = Fields::new(map, KNOWN)?;
    let query = fields.text("query")?.unwrap_or_default();
    if query.is_empty() || query.len() > QUERY_BYTES {
        let rule = format!("'query' must have 1 to {QUERY_BYTES} bytes: what is searched for");
        return Err(Error::value("query", rule));
    }
    let most = fields.whole("max_results", 1..=RESULTS_MAX)?.unwrap_or(RESULTS);
    Ok(SearchQuery {
        query,
        path: fields.text("path")?.unwrap_or_default(),
        max_results: usize::try_from(most).unwrap_or_default(),
        case_sensitive: fields.flag("case_sensitive")?.unwrap_or(false),
        ..SearchQuery::default()
    })
}

fn view(query: String, found: SearchResults) -> View {
    let hit = |SearchHit { path, matches }| {
        let matches = matches.into_iter().map(|(line, content)| Match { line, content });
        Hit { path, matches: matches.collect() }
    };
    let results: Vec<Hit> = found.hits.into_iter().map(hit).collect();
    View { query, total_matches: results.len(), results, is_cut: found.is_cut }
}
