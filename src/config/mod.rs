//! What the server is told. Owns the layers (defaults < file < environment < flags), the expansion of variables, the
//! reading of key files, and the one step from what was written (`RawConfig`) to what holds (`Config`); refuses to be
//! known by any room: the composition root hands each its own part.

mod error;
mod expand;
mod files;
mod key_file;
mod layer;
mod listen;
mod log;
mod metrics;
mod ranges;
mod raw;
mod sources;
mod validate;
mod yaml;

pub use error::{ConfigError, Problem};
pub use files::FileOptions;
pub use listen::Listen;
pub use log::{LogFormat, LogLevel, LogOptions};
pub use metrics::MetricsOptions;
pub use raw::RawConfig;
pub use sources::Sources;
pub use validate::Config;

/// Every key with its default, unit and reason; `config show --default` prints it, a test holds it against the code.
pub const DEFAULT_YML: &str = include_str!("../../config/default.yml");

#[cfg(test)]
mod tests;
