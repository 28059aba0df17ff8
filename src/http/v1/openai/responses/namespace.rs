//! Groups of the client's functions. The model sees a function by both names.

use super::custom_tool::CUSTOM;
use serde_json::Value;
use std::collections::HashMap;

/// The type of a group among `tools`.
pub(super) const NAMESPACE: &str = "namespace";

/// A function's name for the model.
fn qualified(namespace: &str, name: &str) -> String {
    format!("{namespace}__{name}")
}

/// The name for the model of a function that may be in a namespace.
pub(super) fn name_for_model(namespace: Option<&str>, name: &str) -> String {
    namespace.map_or_else(|| name.to_owned(), |namespace| qualified(namespace, name))
}

/// The name that the client gave a function of the namespace.
pub(super) fn own_name<'n>(namespace: &str, qualified_name: &'n str) -> &'n str {
    qualified_name.strip_prefix(&qualified(namespace, "")).unwrap_or(qualified_name)
}

/// The namespaces of functions, by the functions' names for the model.
pub(super) fn of_functions(tools: &[&Value]) -> HashMap<String, String> {
    inner(tools).map(|(namespace, _, name)| (qualified(namespace, name), namespace.to_owned())).collect()
}

/// The custom tools in namespaces, by their names for the model.
pub(super) fn of_custom_tools(tools: &[&Value]) -> Vec<String> {
    let custom = inner(tools).filter(|(_, kind, _)| *kind == CUSTOM);
    custom.map(|(namespace, _, name)| qualified(namespace, name)).collect()
}

/// The tools in namespaces: namespace, type, name.
fn inner<'t>(tools: &'t [&Value]) -> impl Iterator<Item = (&'t str, &'t str, &'t str)> {
    fn text<'v>(tool: &'v Value, field: &str) -> Option<&'v str> {
        tool.get(field)?.as_str()
    }
    let namespaces = tools.iter().filter(|tool| text(tool, "type") == Some(NAMESPACE));
    namespaces.filter_map(|tool| Some((text(tool, "name")?, tool.get("tools")?.as_array()?))).flat_map(
        |(namespace, tools)| {
            tools.iter().filter_map(move |tool| Some((namespace, text(tool, "type")?, text(tool, "name")?)))
        },
    )
}
