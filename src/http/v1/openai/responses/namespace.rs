//! Groups of the client's functions. The model sees a function by both names.

use serde_json::Value;
use std::collections::HashMap;

/// The type of a group among `tools`.
pub(super) const NAMESPACE: &str = "namespace";

/// A function's name for the model.
pub(super) fn qualified(namespace: &str, name: &str) -> String {
    format!("{namespace}__{name}")
}

/// The name that the client gave a function of the namespace.
pub(super) fn own_name<'n>(namespace: &str, qualified_name: &'n str) -> &'n str {
    qualified_name.strip_prefix(&qualified(namespace, "")).unwrap_or(qualified_name)
}

/// The namespaces of functions, by the functions' names for the model.
pub(super) fn of_functions(tools: &[Value]) -> HashMap<String, String> {
    let text = |tool: &Value, field: &str| tool.get(field).and_then(Value::as_str).map(str::to_owned);
    let mut found = HashMap::new();
    for tool in tools.iter().filter(|tool| text(tool, "type").as_deref() == Some(NAMESPACE)) {
        let Some(namespace) = text(tool, "name") else { continue };
        let inner = tool.get("tools").and_then(Value::as_array).into_iter().flatten();
        for name in inner.filter_map(|tool| text(tool, "name")) {
            found.insert(qualified(&namespace, &name), namespace.clone());
        }
    }
    found
}
