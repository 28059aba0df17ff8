//! JSON in one spelling, so that equal values are equal texts. Refuses to be sent anywhere: it is a key for comparing.

use serde_json::Value;

/// The same text for the same arguments, whatever the order of their names.
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
