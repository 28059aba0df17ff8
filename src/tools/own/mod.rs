//! Tools that operators bring along: files of `tools_dir` and commands of `tools:`. Owns what a description of either may
//! say; refuses to be known by name, like every tool.

mod command;
mod javascript;
mod options;

pub use command::CommandTools;
pub use javascript::JavaScriptTools;
pub use options::{BadTool, CommandToolOptions};

use options::{MOST_TIMEOUT_S, NOT_CACHEABLE, bad_description, bad_name, bad_parameters};
