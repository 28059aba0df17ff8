//! Canonical JSON: equal values give equal texts. For comparison keys only.

use serde_json::Value;

/// The value as JSON with sorted object keys.
pub fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_by_key(|(name, _)| name.as_str());
            let written = entries
                .iter()
                .map(|(name, item)| format!("{}:{}", Value::from(name.as_str()), canonical(item)));
            format!("{{{}}}", written.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}
