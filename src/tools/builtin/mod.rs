//! The built-in tools, a file or folder each, and the list that registers them. A new tool is one file and
//! one line in this list (P6).

mod builtin_tool;
mod names;
mod submit_job;
mod text_encoding;
mod workspace_file;
mod workspace_programs;

pub use bash::{BadBashOption, BashOptions, BashRules};
pub use get_weather::WeatherOptions;
pub use message::{BadChannel, ChannelOptions, MessageChannels};
pub use multi_agent::SubAgentOptions;
pub use names::{builtin_names, builtin_of_foreign_name};
pub use web_search::WebSearchOptions;

use crate::ports::Tool;
use crate::tools::registry::ToolDeps;

/// Makes a line of the list both the declaration of a tool's file and its registration.
macro_rules! tools {
    ($($tool:ident,)+) => {
        $(mod $tool;)+

        /// The name of every built-in tool.
        const BUILTIN_NAMES: &[&str] = &[$(stringify!($tool)),+];

        /// Every built-in tool that the configuration allows.
        pub fn registered(deps: &ToolDeps) -> Vec<Box<dyn Tool>> {
            let tools = [$(Option::<Box<dyn Tool>>::from($tool::register(deps))),+];
            tools.into_iter().flatten().collect()
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
    memory,
    message,
    multi_agent,
    read_result,
    read_skill,
    spawn,
    text_process,
    web_search,
}
