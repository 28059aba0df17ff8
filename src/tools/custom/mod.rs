//! The operator's own tools: commands of `tools:` and JavaScript files of `tools_dir`.

mod command;
mod javascript;
mod options;

pub use command::CommandTools;
pub use javascript::JavaScriptTools;
pub use options::{BadTool, CommandToolOptions};
