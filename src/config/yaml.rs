//! YAML behind figment's `Format`: its own YAML feature stands on an archived crate. Refuses repeated keys, which YAML
//! forbids and most readers let pass.

use figment::providers::Format;
use serde::de::DeserializeOwned;
use serde_norway::{Error, Mapping, Value};

/// The format.
pub(crate) struct Yaml;

impl Format for Yaml {
    type Error = Error;

    const NAME: &'static str = "YAML";

    fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
        // Through serde_norway's own tree: it is what notices repeated keys.
        let tree: Value = serde_norway::from_str(text)?;
        let tree = if tree.is_null() { Value::Mapping(Mapping::new()) } else { tree };
        serde_norway::from_value(tree)
    }
}
