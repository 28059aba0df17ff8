//! `crawl_batch`: fetches several pages, a few at a time. Each page succeeds or fails by itself.

use super::builtin_tool::{spec, typed};
use super::names;
use crate::domain::tool::{Aliases, ToolGroup, ToolSpec, ToolTraits};
use crate::ports::{Tool, ToolContext, ToolError, ToolOffer, Web};
use crate::tools::parallel;
use crate::tools::registry::ToolDeps;
use crate::tools::web::visit::{ExtractType, visit};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Pages of one call.
const MAX_PAGES: usize = 10;
/// Pages that are fetched at once.
const PARALLEL_PAGES: usize = 4;

#[derive(Deserialize)]
struct CrawlArguments {
    urls: Vec<String>,
    #[serde(default)]
    extract_type: ExtractType,
}

struct CrawlBatch {
    web: Arc<dyn Web>,
    timeout_s: u64,
}

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    Box::new(CrawlBatch { web: Arc::clone(&deps.web), timeout_s: deps.options.web_timeout_s })
}

impl Tool for CrawlBatch {
    fn aliases(&self) -> Aliases {
        names::aliases("crawl_batch")
    }

    fn group(&self) -> Option<ToolGroup> {
        names::group("crawl_batch")
    }

    fn offer(&self) -> ToolOffer {
        names::offer("crawl_batch")
    }

    fn spec(&self) -> ToolSpec {
        spec(
            "crawl_batch",
            "Read up to 10 web pages at once, as fetch_page does.",
            json!({
                "urls": {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1},
                    "minItems": 1,
                    "maxItems": MAX_PAGES,
                },
                "extract_type": ExtractType::parameter(),
            }),
            &["urls"],
        )
    }

    /// Not cacheable: a page that failed may succeed the next time.
    fn traits(&self) -> ToolTraits {
        ToolTraits::READ
    }

    fn own_timeout(&self, arguments: &Map<String, Value>) -> Duration {
        let pages = arguments.get("urls").and_then(Value::as_array).map_or(0, Vec::len);
        let rounds = u64::try_from(pages.div_ceil(PARALLEL_PAGES)).unwrap_or(1);
        Duration::from_secs(self.timeout_s.saturating_mul(rounds))
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        let CrawlArguments { urls, extract_type } = typed(arguments)?;
        let results = parallel::map("crawl", PARALLEL_PAGES, &urls, |_, url| {
            let visit = || visit(self.web.as_ref(), url, extract_type, &context.cancel);
            page_result(catch_panic(visit), url)
        });
        let is_any_read = results.iter().any(|result| result.get("success") == Some(&Value::Bool(true)));
        let data = json!({"total": results.len(), "untrusted": true, "results": results});
        if is_any_read {
            return Ok(data);
        }
        let message = "No page could be read: each result says why".to_owned();
        Err(ToolError::Failed { message, data })
    }
}

/// Turns a panic into the error of that page.
fn catch_panic(
    visit: impl FnOnce() -> Result<Map<String, Value>, ToolError>,
) -> Result<Map<String, Value>, ToolError> {
    catch_unwind(AssertUnwindSafe(visit)).unwrap_or_else(|_| {
        tracing::error!("reading a page panicked");
        let message = "reading this page crashed: a fault of this server, not of the address".to_owned();
        Err(ToolError::Failed { message, data: Value::Null })
    })
}

fn page_result(result: Result<Map<String, Value>, ToolError>, url: &str) -> Value {
    match result {
        Ok(page) => json!({"url": url, "success": true, "data": page}),
        Err(ToolError::Invalid(error)) => json!({"url": url, "success": false, "error": error}),
        Err(ToolError::Failed { message, data }) => {
            json!({"url": url, "success": false, "error": message, "data": data})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::tool::ToolChoice;
    use crate::ports::{CancelToken, WebError, WebRequest, WebResponse};
    use crate::tools::testing::context;

    /// Panics at addresses with `bad`; all others are unreachable.
    struct PanickingWeb;

    impl Web for PanickingWeb {
        fn send(&self, request: &WebRequest, _: &CancelToken) -> Result<WebResponse, WebError> {
            assert!(!request.url.contains("bad"), "secret detail");
            Err(WebError::Unreachable("nobody is there".into()))
        }
    }

    #[test]
    fn a_panic_fails_only_its_own_page() {
        let tool = CrawlBatch { web: Arc::new(PanickingWeb), timeout_s: 1 };
        let urls = ["http://a.example/bad", "http://b.example/", "http://c.example/bad"];
        let arguments = Map::from_iter([("urls".to_owned(), json!(urls))]);
        let result = tool.call(&arguments, &context(ToolChoice::All(true)));
        let Err(ToolError::Failed { data, .. }) = result else { panic!("nothing was read: {result:?}") };
        let error = |at: usize| data["results"][at]["error"].as_str().expect("an error").to_owned();
        assert!(error(0).contains("crashed") && error(2).contains("crashed"), "{data}");
        assert!(!error(1).contains("crashed") && !data.to_string().contains("secret"), "{data}");
    }
}
