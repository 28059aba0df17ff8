//! The configuration: layers (defaults < file < environment < flags), variables, key files and validation.
//! Only `app` and `cli` read it; other modules receive their own options.

mod directories;
mod error;
mod expand;
mod key_file;
mod keys;
mod layers;
mod listen;
mod mcp_clients;
mod options;
mod original_keys;
mod pasted_block;
mod private_paths;
mod ranges;
mod shared_dir;
mod sources;
mod tool_names;
mod validate;

pub use error::{ConfigError, ConfigProblem};
pub use keys::ConfigKeys;
pub use layers::ConfigFormat;
pub use listen::Listen;
pub use options::{
    FileOptions, LogFormat, LogLevel, LogOptions, McpEndpointOptions, MemoryOptions, MetricsOptions,
};
pub use sources::Sources;
pub use validate::Config;

/// Every key with default, unit and reason, as `config show --default` prints it. A test compares it with
/// the code.
pub const DEFAULT_YML: &str = include_str!("../../config/default.yml");

#[cfg(test)]
mod tests;
