//! What models may call. Owns the list of tools, the executor with its validation, and one file per tool; refuses to
//! know jobs, models and the store: whose call it is comes in with the context.
//!
//! A new tool is one file and one line in the list below (P6). A tool sees only its own arguments, already validated
//! against its own schema; parsing, coercion, dedup, parallel runs, timeouts, panics and the result's form are the
//! [`Executor`]'s.

mod approval;
mod arguments;
mod batch;
mod cache;
mod catalogue;
mod code;
mod coerce;
mod cut;
mod endpoint;
mod entry;
mod errand;
mod executor;
mod measured;
mod nearest;
mod outcome;
mod own;
mod page;
mod project_file;
mod registry;
mod run;
mod schema;
#[cfg(test)]
mod testing;
mod visit;
mod waves;

pub use approval::{ApprovalRules, BadPattern};
pub use bash::{BadBashOption, BashOptions, BashRules};
pub use cache::CacheBounds;
pub use code::CodeRunner;
pub use endpoint::BadOption;
pub use executor::{Bounds, Error, Executor, Terms};
pub use get_weather::WeatherOptions;
pub use measured::MeasuredCode;
pub use message::{BadChannel, ChannelOptions, Channels};
pub use multi_agent::SubAgentOptions;
pub use own::{BadTool, CommandToolOptions, CommandTools, JavaScriptTools};
pub use registry::{JobDesk, ToolDeps, ToolOptions};
pub use web_search::WebSearchOptions;

use crate::ports::Tool;

/// Makes a line of the list both the declaration of a tool's file and its registration.
macro_rules! tools {
    ($($tool:ident,)+) => {
        $(mod $tool;)+

        /// Every tool, built.
        pub fn registered(deps: &ToolDeps) -> Vec<Box<dyn Tool>> {
            vec![$($tool::register(deps)),+]
        }
    };
}

// One line per tool, in alphabetical order.
tools! {
    bash,
    calculator,
    crawl_batch,
    cron,
    execute_javascript,
    execute_python,
    fetch_page,
    file_delete,
    file_edit,
    file_exists,
    file_list,
    file_mkdir,
    file_read,
    file_search,
    file_write,
    get_weather,
    json_process,
    message,
    multi_agent,
    read_result,
    spawn,
    text_process,
    web_search,
}
