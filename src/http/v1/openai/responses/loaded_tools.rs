//! Tools that items of the input bring: `additional_tools`, and the outputs of a search for tools that the
//! client runs. They are offered in the request whose input has the items, and in those that continue it.

use crate::domain::model_settings::ClientFunction;
use crate::http::error::ApiError;
use crate::http::request::member;
use crate::http::v1::openai::failure::unsupported;
use crate::http::v1::openai::fields::check_tool;
use serde_json::{Value, json};
use std::collections::HashSet;

/// The type of an item with tools alone.
pub(super) const ADDITIONAL: &str = "additional_tools";
/// The type of a search among `tools`, and its name for the model.
pub(super) const SEARCH: &str = "tool_search";
/// The type of a call of it.
pub(super) const CALL: &str = "tool_search_call";
/// The type of a result.
pub(super) const RESULT: &str = "tool_search_output";

/// The tools that earlier responses and the items bring, and that are not among `tools`.
pub(super) fn of_items((before, items): (&[Value], &[Value]), tools: &[Value]) -> Vec<Value> {
    let bring = |item: &&Value| [ADDITIONAL, RESULT].contains(&text(item, "type"));
    let by_items = items.iter().filter(bring).filter_map(|item| item.get("tools")?.as_array()).flatten();
    let mut brought = before.iter().chain(by_items).peekable();
    if brought.peek().is_none() {
        return Vec::new();
    }
    let mut known = HashSet::new();
    for tool in tools {
        drop(unknown(tool.clone(), &mut known));
    }
    brought.filter_map(|tool| unknown(tool.clone(), &mut known)).collect()
}

/// The tool without what is known, and as one that is loaded.
fn unknown(mut tool: Value, known: &mut HashSet<(String, String)>) -> Option<Value> {
    let name = text(&tool, "name").to_owned();
    let Value::Object(map) = &mut tool else { return Some(tool) };
    map.remove("defer_loading");
    let Some(inner) = map.get_mut("tools").and_then(Value::as_array_mut) else {
        let name = if name.is_empty() { json!(map).to_string() } else { name };
        return known.insert((String::new(), name)).then_some(tool);
    };
    inner.retain(|tool| known.insert((name.clone(), text(tool, "name").to_owned())));
    for tool in inner.iter_mut().filter_map(Value::as_object_mut) {
        tool.remove("defer_loading");
    }
    (!inner.is_empty()).then_some(tool)
}

fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The function that the model sees of a search.
pub(super) fn search(path: &str, tool: &Value) -> Result<ClientFunction, ApiError> {
    if text(tool, "execution") != "client" {
        let path = format!("{path}.execution");
        let message = format!("'{path}' must be client: this server has no search for tools");
        return Err(unsupported(&path, message));
    }
    check_tool(path, tool, &["execution", "description", "parameters"], |_, _| false)?;
    let parameters = member::optional_object(path, tool, "parameters")?.cloned();
    Ok(ClientFunction {
        name: SEARCH.to_owned(),
        description: member::optional_text(path, tool, "description")?.unwrap_or_default().to_owned(),
        parameters: parameters.map_or_else(|| json!({"type": "object", "properties": {}}), Value::Object),
        strict: None,
        input_examples: Vec::new(),
    })
}

/// Fails unless the item's tools are a list of objects.
pub(super) fn check(path: &str, item: &Value) -> Result<(), ApiError> {
    for (index, tool) in member::list(path, item, "tools")?.iter().enumerate() {
        member::check_object(&format!("{path}.tools[{index}]"), tool)?;
    }
    Ok(())
}

/// What the model reads of a result: the tools have their definitions elsewhere.
pub(super) fn found(item: &Value) -> String {
    let tools = item.get("tools").and_then(Value::as_array).into_iter().flatten();
    let names: Vec<&str> = tools.map(|tool| text(tool, "name")).collect();
    json!({"found": names}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_items_bring_twice_is_offered_once() {
        let function = |name: &str| json!({"type": "function", "name": name});
        let deferred = |name: &str| json!({"type": "function", "name": name, "defer_loading": true});
        let namespace = |tools: Value| json!({"type": "namespace", "name": "n", "tools": tools});
        let items = [
            json!({"type": "message", "tools": [function("no")]}),
            json!({"type": ADDITIONAL, "tools": [function("a"), deferred("b"), namespace(json!([deferred("a")]))]}),
            json!({"type": RESULT, "tools": [function("b"), namespace(json!([function("a"), function("c")]))]}),
        ];
        let offered = of_items((&[], &items), &[function("a")]);
        let expected = [function("b"), namespace(json!([function("a")])), namespace(json!([function("c")]))];
        assert_eq!(offered, expected);
        assert_eq!(of_items((&offered, &items[1..]), &[function("a")]), expected, "sent again in a chain");
        let hosted = [json!({"type": "web_search"})];
        let again = [json!({"type": ADDITIONAL, "tools": hosted})];
        assert_eq!(of_items((&hosted, &again), &[]), hosted);
    }
}
