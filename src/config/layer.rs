//! The layers and their merger. Owns how a variable or a flag names a key, and how figment's complaints become ours.

use super::error::ConfigError;
use super::expand::{Variables, below, expand};
use super::raw::RawConfig;
use super::yaml::Yaml;
use crate::domain::nearest::hint;
use figment::error::{Actual, Kind};
use figment::providers::Format;
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};
use std::io::ErrorKind;
use std::path::Path;

/// What the variables that are keys start with.
const PREFIX: &str = "NANOCLAW_";
/// Variables of ours that are no keys.
const NO_KEYS: [&str; 3] = ["NANOCLAW_CONFIG", "NANOCLAW_SERVER", "NANOCLAW_TOKEN"];

/// Whether the keys of models are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    /// They are, and what cannot be had is an error.
    Wanted,
    /// What they are made of may be somebody else's environment: keys with a variable in them are left out.
    Unwanted,
}

/// A dictionary and where it is from.
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

/// Defaults (which the types carry) < file < environment < flags.
pub(crate) fn merge(
    file: Option<&Path>,
    env: &Variables,
    flags: &[(String, String)],
    keys: Keys,
) -> Result<RawConfig, ConfigError> {
    let mut figment = Figment::new();
    if let Some(path) = file {
        figment = figment.merge(read(path, env, keys)?);
    }
    let figment = figment.merge(environment(env)).merge(command_line(flags));
    // Lossy: what variables and flags say is text, and "16" is the number where a number is wanted.
    figment.extract_lossy().map_err(translate)
}

fn read(path: &Path, env: &Variables, keys: Keys) -> Result<Layer, ConfigError> {
    let unreadable = |error: std::io::Error| match error.kind() {
        ErrorKind::PermissionDenied => ConfigError::Denied { path: path.to_owned() },
        kind => ConfigError::Unreadable { path: path.to_owned(), reason: kind.to_string() },
    };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let toml = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
    let (format, parsed) = if toml {
        ("TOML", basic_toml::from_str(&text).map_err(|error| error.to_string()))
    } else {
        ("YAML", yaml(&text))
    };
    let syntax = |reason| ConfigError::Syntax { path: path.to_owned(), format, reason };
    let mut dict: Dict = parsed.map_err(syntax)?;
    if keys == Keys::Unwanted {
        leave_out_keys(&mut dict);
    }
    let origin = format!("in {}", path.display());
    let mut whole = Value::from(dict);
    expand("", &mut whole, env, &origin)?;
    Ok(Layer { origin, dict: whole.into_dict().unwrap_or_default() })
}

/// Takes away every `models[*].api_key` that names a variable.
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
    let mut profiles = Yaml::string(text).data().map_err(|error| error.to_string())?;
    Ok(profiles.remove(&Profile::Default).unwrap_or_default())
}

/// `NANOCLAW_LIMITS__BODY_BYTES=1000` is `limits.body_bytes`. Values are taken as they are: the shell has expanded them.
fn environment(env: &Variables) -> Layer {
    let ours = env.iter().filter(|(name, _)| !NO_KEYS.contains(&name.as_str()));
    let keys = ours.filter_map(|(name, value)| {
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

/// Lists and objects are written as YAML writes them on one line; everything else is text until a number is wanted.
fn value(text: &str) -> Value {
    let flow = text.starts_with('[') || text.starts_with('{');
    let parsed = if flow { serde_norway::from_str::<Value>(text).ok() } else { None };
    parsed.unwrap_or_else(|| Value::from(text))
}

fn translate(error: figment::Error) -> ConfigError {
    let origin = error.metadata.as_ref().map_or_else(|| "default".to_owned(), |m| m.name.to_string());
    let key = dotted(&error.path);
    match error.kind {
        Kind::UnknownField(name, known) => {
            // figment's path ends with the field in some cases and with its parent in others.
            let key = if error.path.last() == Some(&name) { key } else { below(&key, &name) };
            ConfigError::UnknownKey { key, origin, meant: hint(&name, known.iter().copied()) }
        }
        Kind::UnknownVariant(name, known) => {
            let reason =
                format!("'{name}' must be one of {}{}", known.join(", "), hint(&name, known.iter().copied()));
            ConfigError::Type { key, reason, origin }
        }
        Kind::MissingField(name) => {
            ConfigError::Type { key: below(&key, &name), reason: "is missing".to_owned(), origin }
        }
        // The value could be a key that slipped into the wrong place: only its type is told.
        Kind::InvalidType(_, expected) if is_secret(&error.path) => {
            ConfigError::Type { key, reason: format!("must be {}", plain(&expected)), origin }
        }
        Kind::InvalidType(found, expected) | Kind::InvalidValue(found, expected) => ConfigError::Type {
            key,
            reason: format!("must be {}, not {}", plain(&expected), shown(&found)),
            origin,
        },
        other => ConfigError::Type { key, reason: other.to_string(), origin },
    }
}

/// serde names Rust's types; operators know other words.
fn plain(expected: &str) -> String {
    match expected {
        "usize" | "u64" | "u32" | "u16" | "u8" => "a whole number, 0 or more".to_owned(),
        "a sequence" => "a list".to_owned(),
        other if other.starts_with("struct ") => "a mapping of keys".to_owned(),
        other => other.to_owned(),
    }
}

fn shown(found: &Actual) -> String {
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
            below(&key, name)
        }
    })
}
