//! `tools:` of the configuration: the default sets of tools, and the operator's commands.

use super::custom::CommandToolOptions;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Which tools jobs are offered, and the operator's commands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ToolsSectionOptions {
    /// Tools and groups of a job that names none; `None` for the built-in set.
    pub default: Option<Vec<String>>,
    /// The same for jobs of these models.
    pub per_model: BTreeMap<String, Vec<String>>,
    /// Commands that are tools.
    pub commands: Vec<CommandToolOptions>,
    /// The key of the commands, for errors: a plain list is the short form of `commands`.
    #[serde(skip)]
    pub is_list: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ToolsMapping {
    default: Option<Vec<String>>,
    per_model: BTreeMap<String, Vec<String>>,
    commands: Vec<CommandToolOptions>,
}

impl<'de> Deserialize<'de> for ToolsSectionOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListOrMapping;

        impl<'de> Visitor<'de> for ListOrMapping {
            type Value = ToolsSectionOptions;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping with default, per_model and commands, or a list of commands")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<ToolsSectionOptions, A::Error> {
                let commands = Vec::deserialize(SeqAccessDeserializer::new(list))?;
                Ok(ToolsSectionOptions { commands, is_list: true, ..ToolsSectionOptions::default() })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ToolsSectionOptions, A::Error> {
                let mapping = ToolsMapping::deserialize(MapAccessDeserializer::new(map))?;
                let ToolsMapping { default, per_model, commands } = mapping;
                Ok(ToolsSectionOptions { default, per_model, commands, is_list: false })
            }
        }

        deserializer.deserialize_any(ListOrMapping)
    }
}
