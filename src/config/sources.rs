//! Where a configuration comes from. Owns the search for the file and the one reading of the environment; everything is
//! a value, so that tests bring their own.

use super::error::ConfigError;
use super::expand::Variables;
use super::layer;
use super::validate::Config;
use std::path::PathBuf;

/// Names a configuration file; not a key.
const FILE_VARIABLE: &str = "NANOCLAW_CONFIG";
/// Where a file is looked for when none is named.
const SEARCHED: [&str; 2] = ["config.yml", "/etc/nanoclaw/config.yml"];

/// What there is to read, from the weakest to the strongest.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The file that `--config` names; it has to exist.
    pub file: Option<PathBuf>,
    /// Where a file may be otherwise; the first one that exists is read.
    pub searched: Vec<PathBuf>,
    /// The environment.
    pub env: Variables,
    /// Settings from the command line, `("limits.body_bytes", "1000")`.
    pub flags: Vec<(String, String)>,
}

impl Sources {
    /// The process's own: `--config`, its environment, and the flags that were given.
    pub fn of_process(file: Option<PathBuf>, flags: Vec<(String, String)>) -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let env = std::env::vars_os().filter_map(text).collect();
        Self { file, searched: SEARCHED.map(PathBuf::from).to_vec(), env, flags }
    }

    /// Where this user's programs keep their state; none without a home.
    pub fn state_home(&self) -> Option<PathBuf> {
        state_home(&self.env)
    }

    /// The file to read, if there is one.
    pub(crate) fn found(&self) -> Option<PathBuf> {
        let named = self.file.clone().or_else(|| self.env.get(FILE_VARIABLE).map(PathBuf::from));
        named.or_else(|| self.searched.iter().find(|path| path.exists()).cloned())
    }
}

/// `$XDG_STATE_HOME`, else `~/.local/state`; relative ones count as not set (XDG base directory specification).
pub(super) fn state_home(env: &Variables) -> Option<PathBuf> {
    let absolute = |name: &str| env.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
}

impl Config {
    /// Reads all layers and checks the whole.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let file = sources.found();
        let raw = layer::merge(file.as_deref(), &sources.env, &sources.flags)?;
        Self::check(raw, file, &sources.env)
    }

    /// The same without the models' key files: for commands that ask no model, and may not be allowed to read them. What a
    /// service gets as a credential is there for the service alone.
    pub fn load_keyless(sources: &Sources) -> Result<Self, ConfigError> {
        let file = sources.found();
        let mut raw = layer::merge(file.as_deref(), &sources.env, &sources.flags)?;
        for model in &mut raw.models {
            model.api_key_file = None;
        }
        Self::check(raw, file, &sources.env)
    }
}
