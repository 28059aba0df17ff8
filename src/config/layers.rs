//! Reads and merges the layers, and turns the errors of figment into ours.

use super::error::ConfigError;
use super::expand::{VariableForms, Variables, expand, join_key};
use super::keys::ConfigKeys;
use super::{mcp_clients, original_keys, pasted_block};
use crate::domain::nearest::hint;
use figment::error::{Actual, Kind};
use figment::providers::Format;
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};
use serde::de::DeserializeOwned;
use std::io::ErrorKind;
use std::path::Path;

/// Prefix of variables that set keys.
const PREFIX: &str = "NANOCLAW_";
/// Variables with the prefix that are not keys.
const NO_KEYS: [&str; 3] = ["NANOCLAW_CONFIG", "NANOCLAW_SERVER", "NANOCLAW_TOKEN"];

/// Whether the keys of models are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelKeys {
    /// Yes; a missing one is an error.
    Required,
    /// No: keys that contain a variable are left out. The variable may exist only for the service.
    Omitted,
}

/// All layers together.
pub(crate) struct MergedKeys {
    pub(crate) keys: ConfigKeys,
    pub(crate) notes: FileNotes,
}

/// What the operator should know about the file.
#[derive(Debug, Default)]
pub(crate) struct FileNotes {
    /// What became of keys of the original `NanoClaw`, a line for each.
    pub(crate) original_keys: Vec<String>,
    /// Fields of MCP clients that have no effect here, a line for each server.
    pub(crate) warnings: Vec<String>,
}

/// Values and their origin.
struct Layer {
    origin: String,
    dict: Dict,
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.origin.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Map::from([(Profile::Default, self.dict.clone())]))
    }
}

/// Merges defaults < file < environment < flags. The types carry the defaults.
pub(crate) fn merge(
    file: Option<&Path>,
    env: &Variables,
    flags: &[(String, String)],
    keys: ModelKeys,
) -> Result<MergedKeys, ConfigError> {
    let mut figment = Figment::new();
    let mut notes = FileNotes::default();
    if let Some(path) = file {
        let (layer, found) = read(path, env, keys)?;
        figment = figment.merge(layer);
        notes = found;
    }
    let figment = figment.merge(environment(env)).merge(command_line(flags));
    // Lossy, because variables and flags are text: "16" is accepted as a number.
    let keys = figment.extract_lossy().map_err(convert_error)?;
    Ok(MergedKeys { keys, notes })
}

/// The format of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigFormat {
    /// YAML, with a pasted JSON object between its keys or without one.
    Yaml,
    /// TOML.
    Toml,
}

impl ConfigFormat {
    /// The format by the ending of the name.
    pub fn of(path: &Path) -> Self {
        let is_toml = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
        if is_toml { Self::Toml } else { Self::Yaml }
    }

    /// The keys of a file, without variables expanded.
    pub fn parse(self, text: &str) -> Result<serde_json::Value, String> {
        serde_json::to_value(self.dict(text)?).map_err(|error| error.to_string())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Yaml => "YAML",
            Self::Toml => "TOML",
        }
    }

    fn dict(self, text: &str) -> Result<Dict, String> {
        match self {
            Self::Yaml => yaml(text),
            Self::Toml => basic_toml::from_str(text).map_err(|error| error.to_string()),
        }
    }
}

/// The layer of a file, and what the operator should know about it.
fn read(path: &Path, env: &Variables, keys: ModelKeys) -> Result<(Layer, FileNotes), ConfigError> {
    let unreadable = |error: std::io::Error| match error.kind() {
        ErrorKind::PermissionDenied => ConfigError::Denied { path: path.to_owned() },
        kind => ConfigError::Unreadable { path: path.to_owned(), reason: kind.to_string() },
    };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let format = ConfigFormat::of(path);
    let syntax = |reason| ConfigError::Syntax { path: path.to_owned(), format: format.name(), reason };
    let mut dict = format.dict(&text).map_err(syntax)?;
    let origin = format!("in {}", path.display());
    let original_keys = original_keys::translate(&mut dict, &origin)?;
    if keys == ModelKeys::Omitted {
        leave_out_keys(&mut dict);
    }
    // Its dollar signs have another meaning.
    let pasted = dict.remove(mcp_clients::PASTED);
    let mut root = Value::from(dict);
    expand("", &mut root, VariableForms::Own, env, &origin)?;
    let mut dict = root.into_dict().unwrap_or_default();
    let warnings = mcp_clients::translate(&mut dict, pasted, env, &origin)?;
    Ok((Layer { origin, dict }, FileNotes { original_keys, warnings }))
}

/// Removes every `models[*].api_key` that contains a variable.
fn leave_out_keys(dict: &mut Dict) {
    let Some(Value::Array(_, models)) = dict.get_mut("models") else { return };
    for model in models {
        let Value::Dict(_, model) = model else { continue };
        if model.get("api_key").and_then(Value::as_str).is_some_and(|key| key.contains('$')) {
            model.remove("api_key");
        }
    }
}

fn yaml(text: &str) -> Result<Dict, String> {
    plain_yaml(text).or_else(|error| pasted_block::parse(text, plain_yaml).unwrap_or(Err(error)))
}

fn plain_yaml(text: &str) -> Result<Dict, String> {
    let mut profiles = Yaml::string(text).data().map_err(|error| error.to_string())?;
    Ok(profiles.remove(&Profile::Default).unwrap_or_default())
}

/// `NANOCLAW_LIMITS__BODY_BYTES=1000` sets `limits.body_bytes`. Variables inside values are not expanded.
fn environment(env: &Variables) -> Layer {
    let key_variables = env.iter().filter(|(name, _)| !NO_KEYS.contains(&name.as_str()));
    let keys = key_variables.filter_map(|(name, value)| {
        let path: Vec<String> = name.strip_prefix(PREFIX)?.split("__").map(str::to_lowercase).collect();
        Some((path, value.as_str()))
    });
    Layer { origin: "in the environment".to_owned(), dict: nest(keys) }
}

fn command_line(flags: &[(String, String)]) -> Layer {
    let keys = flags.iter().map(|(key, value)| (key.split('.').map(str::to_owned).collect(), value.as_str()));
    Layer { origin: "on the command line".to_owned(), dict: nest(keys) }
}

fn nest<'a>(keys: impl Iterator<Item = (Vec<String>, &'a str)>) -> Dict {
    let mut dict = Dict::new();
    for (path, text) in keys {
        insert(&mut dict, &path, value(text));
    }
    dict
}

fn insert(dict: &mut Dict, path: &[String], value: Value) {
    match path {
        [] => {}
        [name] => drop(dict.insert(name.clone(), value)),
        [name, rest @ ..] => {
            let inner = dict.entry(name.clone()).or_insert_with(|| Value::from(Dict::new()));
            if !matches!(inner, Value::Dict(..)) {
                *inner = Value::from(Dict::new());
            }
            if let Value::Dict(_, inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

/// Lists and objects are written as in YAML flow style; everything else is text.
fn value(text: &str) -> Value {
    let is_flow = text.starts_with('[') || text.starts_with('{');
    let parsed = if is_flow { serde_norway::from_str::<Value>(text).ok() } else { None };
    parsed.unwrap_or_else(|| Value::from(text))
}

fn convert_error(error: figment::Error) -> ConfigError {
    let origin = error.metadata.as_ref().map_or_else(|| "default".to_owned(), |m| m.name.to_string());
    let key = dotted(&error.path);
    match error.kind {
        Kind::UnknownField(name, known) => {
            // The path of figment ends with the field or with its parent.
            let key = if error.path.last() == Some(&name) { key } else { join_key(&key, &name) };
            ConfigError::UnknownKey { key, origin, suggestion: hint(&name, known.iter().copied()) }
        }
        Kind::UnknownVariant(name, known) => {
            let reason =
                format!("'{name}' must be one of {}{}", known.join(", "), hint(&name, known.iter().copied()));
            ConfigError::Type { key, reason, origin }
        }
        Kind::MissingField(name) => {
            ConfigError::Type { key: join_key(&key, &name), reason: "is missing".to_owned(), origin }
        }
        // The value may be a misplaced secret, so only its type is shown.
        Kind::InvalidType(_, expected) if is_secret(&error.path) => {
            ConfigError::Type { key, reason: format!("must be {}", describe_type(&expected)), origin }
        }
        Kind::InvalidType(found, expected) | Kind::InvalidValue(found, expected) => ConfigError::Type {
            key,
            reason: format!("must be {}, not {}", describe_type(&expected), describe_value(&found)),
            origin,
        },
        other => ConfigError::Type { key, reason: other.to_string(), origin },
    }
}

/// Describes the type names of serde.
fn describe_type(expected: &str) -> String {
    match expected {
        "usize" | "u64" | "u32" | "u16" | "u8" => "a whole number, 0 or more".to_owned(),
        "a sequence" => "a list".to_owned(),
        other if other.starts_with("struct ") => "a mapping of keys".to_owned(),
        other => other.to_owned(),
    }
}

fn describe_value(found: &Actual) -> String {
    match found {
        Actual::Str(text) => format!("'{text}'"),
        Actual::Unsigned(number) => format!("'{number}'"),
        Actual::Signed(number) => format!("'{number}'"),
        Actual::Float(number) => format!("'{number}'"),
        Actual::Bool(flag) => format!("'{flag}'"),
        Actual::Seq => "a list".to_owned(),
        Actual::Map => "a mapping".to_owned(),
        Actual::Unit => "nothing".to_owned(),
        other => other.to_string(),
    }
}

fn is_secret(path: &[String]) -> bool {
    path.iter().any(|name| name.ends_with("key") || name.ends_with("token") || name == "secrets")
}

/// `models`, `0`, `id` as `models[0].id`.
fn dotted(path: &[String]) -> String {
    path.iter().fold(String::new(), |key, name| {
        if !key.is_empty() && name.bytes().all(|b| b.is_ascii_digit()) {
            format!("{key}[{name}]")
        } else {
            join_key(&key, name)
        }
    })
}

/// YAML as a figment format: figment's own YAML feature uses an archived crate. A repeated key is an error.
struct Yaml;

impl Format for Yaml {
    type Error = serde_norway::Error;

    const NAME: &'static str = "YAML";

    fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, serde_norway::Error> {
        // serde_norway's own tree detects repeated keys.
        let tree: serde_norway::Value = serde_norway::from_str(text)?;
        let tree =
            if tree.is_null() { serde_norway::Value::Mapping(serde_norway::Mapping::new()) } else { tree };
        serde_norway::from_value(tree)
    }
}
