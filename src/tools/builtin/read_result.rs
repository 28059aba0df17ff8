//! `read_result`: pages through results that were too long to show whole. It reads only the user's own
//! results (P7).

use super::builtin_tool::{spec, typed};
use super::names;
use crate::domain::handle::ResultHandle;
use crate::domain::tool::{Aliases, ToolSpec, ToolTraits};
use crate::ports::{Results, Tool, ToolContext, ToolError};
use crate::tools::registry::ToolDeps;
use crate::tools::text::json_chars;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Characters of the result around a page.
const FRAME_CHARS: usize = 400;

#[derive(Deserialize)]
struct ReadResultArguments {
    handle: String,
    #[serde(default)]
    offset: usize,
    limit: Option<usize>,
}

struct ReadResult {
    results: Arc<dyn Results>,
    /// The longest result that a model sees, as JSON.
    result_chars: usize,
}

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    Box::new(ReadResult {
        results: Arc::clone(&deps.results),
        result_chars: deps.options.limits.tool_result_chars,
    })
}

impl ReadResult {
    /// Characters of a page: half a result, so that paging leaves room for work.
    fn page_chars(&self) -> usize {
        (self.result_chars / 2).max(1)
    }

    fn find(&self, text: &str, context: &ToolContext) -> Result<String, ToolError> {
        let handle =
            ResultHandle::parse(text, context.job).map(|handle| self.results.result(context.user, &handle));
        match handle.transpose() {
            Ok(Some(Some(full_text))) => Ok(full_text),
            Ok(_) => {
                let quoted: String = text.chars().take(100).collect();
                Err(ToolError::failed(format!(
                    "There is no result '{quoted}'. Copy the handle exactly as it stands where a result was cut; results of \
                     older jobs are deleted after a while"
                )))
            }
            Err(error) => Err(ToolError::failed(format!("The result cannot be read: {error}"))),
        }
    }
}

impl Tool for ReadResult {
    fn aliases(&self) -> Aliases {
        names::aliases("read_result")
    }

    fn spec(&self) -> ToolSpec {
        let max = self.page_chars();
        spec(
            "read_result",
            "Read more of a tool result that was cut. The place of the cut names handle and offset.",
            json!({
                "handle": {"type": "string", "minLength": 1},
                "offset": {"type": "integer", "minimum": 0, "default": 0},
                "limit": {
                    "type": "integer", "minimum": 1, "maximum": max, "description": "Characters",
                },
            }),
            &["handle"],
        )
    }

    fn traits(&self) -> ToolTraits {
        ToolTraits::READ
    }

    fn reads_results(&self) -> bool {
        true
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        let ReadResultArguments { handle, offset, limit } = typed(arguments)?;
        let full_text = self.find(&handle, context)?;
        let total = full_text.chars().count();
        if offset >= total {
            return Err(ToolError::Invalid(format!(
                "The result has {total} characters: offset must be less"
            )));
        }
        let max_json_chars = self.result_chars.saturating_sub(FRAME_CHARS.min(self.result_chars / 2));
        let text =
            page(&full_text, offset, limit.unwrap_or(usize::MAX).min(self.page_chars()), max_json_chars);
        let next = offset.saturating_add(text.chars().count());
        Ok(json!({
            "offset": offset,
            "total_chars": total,
            "next_offset": (next < total).then_some(next),
            "content": text,
        }))
    }
}

/// At most `limit` characters from `offset` on, as many as fit into `room_chars` characters of JSON, but at
/// least one.
fn page(full_text: &str, offset: usize, limit: usize, max_json_chars: usize) -> String {
    let mut used_chars = 0_usize;
    let fits = |character: &char| {
        let is_first = used_chars == 0;
        used_chars = used_chars.saturating_add(json_chars(*character));
        is_first || used_chars <= max_json_chars
    };
    full_text.chars().skip(offset).take(limit).take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::{JobId, UserId};
    use crate::domain::tool::ToolChoice;
    use crate::ports::StoreError;
    use crate::tools::testing::context;

    /// One result of one user.
    struct StoredResult(String);

    impl Results for StoredResult {
        fn result(&self, user: UserId, handle: &ResultHandle) -> Result<Option<String>, StoreError> {
            let known = *handle == ResultHandle::of(JobId::from_bits(1), "call_0");
            Ok((known && user == UserId::SINGLE).then(|| self.0.clone()))
        }
    }

    fn tool(full_text: &str) -> ReadResult {
        ReadResult { results: Arc::new(StoredResult(full_text.to_owned())), result_chars: 2_000 }
    }

    fn read(tool: &ReadResult, arguments: Value) -> Result<Value, String> {
        let Value::Object(arguments) = arguments else { panic!("an object") };
        tool.call(&arguments, &context(ToolChoice::All(true))).map_err(|error| error.to_string())
    }

    #[test]
    fn result_pages_are_contiguous_and_within_the_size_limit() {
        let full_text = "é\"\n\u{1}x".repeat(3_000);
        let tool = tool(&full_text);
        let (mut offset, mut collected) = (0, String::new());
        loop {
            let page = read(&tool, json!({"handle": "call_0", "offset": offset})).expect("a page");
            assert!(page.to_string().chars().count() < 1_800, "{}", page.to_string().len());
            assert_eq!((&page["offset"], &page["total_chars"]), (&json!(offset), &json!(15_000)));
            collected.push_str(page["content"].as_str().expect("a text"));
            let Some(next) = page["next_offset"].as_u64() else { break };
            assert!(next > offset);
            offset = next;
        }
        assert_eq!(collected, full_text);
        let page = read(&tool, json!({"handle": "call_0", "offset": 5, "limit": 2})).expect("a page");
        assert_eq!((&page["content"], &page["next_offset"]), (&json!("é\""), &json!(7)));
    }

    #[test]
    fn p7_missing_and_foreign_results_are_reported_as_not_found() {
        let tool = tool("short");
        for handle in ["call_1", "", "job_x/call_0", &format!("{}/call_0", JobId::from_bits(2))] {
            let error = read(&tool, json!({"handle": handle})).expect_err(handle);
            assert!(error.starts_with("There is no result '"), "{error}");
        }
        let arguments = Map::from_iter([("handle".to_owned(), json!("call_0"))]);
        let other = ToolContext { user: UserId(2), ..context(ToolChoice::All(true)) };
        assert!(tool.call(&arguments, &other).is_err());
        let error = read(&tool, json!({"handle": "call_0", "offset": 5})).expect_err("behind the end");
        assert_eq!(error, "The result has 5 characters: offset must be less");
    }
}
