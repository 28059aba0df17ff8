//! A request body. Tools are kept as text that is written once, because every call to a model carries every
//! tool.

use crate::domain::tool::ToolDefinition;
use serde_json::{Map, Value};

/// The field of the tools, in every dialect.
const TOOLS: &str = "tools";

/// A JSON object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProviderRequestBody {
    /// All fields except the tools.
    pub(crate) fields: Map<String, Value>,
    /// The tools as a JSON array; a field of the same name replaces it.
    tools: Option<String>,
}

impl ProviderRequestBody {
    /// A body without tools.
    pub(crate) fn new(fields: Map<String, Value>) -> Self {
        Self { fields, tools: None }
    }

    /// The same body with these tools, each written by the dialect. An empty list adds no field.
    #[must_use]
    pub(crate) fn offering(self, tools: &[ToolDefinition], write: fn(&ToolDefinition, &mut String)) -> Self {
        if tools.is_empty() || self.fields.contains_key(TOOLS) {
            return self;
        }
        let mut list = String::from("[");
        for tool in tools {
            if list.len() > 1 {
                list.push(',');
            }
            write(tool, &mut list);
        }
        list.push(']');
        Self { tools: Some(list), ..self }
    }

    /// The JSON text.
    pub(crate) fn text(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string(&self.fields)?;
        if let Some(tools) = self.tools.as_ref().filter(|_| text.pop().is_some()) {
            if !self.fields.is_empty() {
                text.push(',');
            }
            text.extend(["\"", TOOLS, "\":", tools, "}"]);
        }
        Ok(text)
    }

    /// As its reader sees it.
    #[cfg(test)]
    pub(crate) fn read(&self) -> Value {
        serde_json::from_str(&self.text().expect("is written")).expect("is JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::tool::ToolSpec;
    use serde_json::json;

    fn offer(name: &'static str) -> ToolDefinition {
        let parameters = json!({"type": "object", "properties": {"a \"b\"": {"type": "string"}}});
        ToolDefinition::from(ToolSpec { name: name.into(), description: "says \"hi\"\n".into(), parameters })
    }

    fn write(tool: &ToolDefinition, text: &mut String) {
        text.extend(["{", tool.introduction(), ",\"schema\":", tool.schema(), "}"]);
    }

    #[test]
    fn streamed_tool_definitions_equal_serialized_values() {
        let offers = [offer("one"), offer("two")];
        let tools: Vec<Value> = offers
            .iter()
            .map(|o| json!({"name": o.name, "description": o.description, "schema": o.parameters}))
            .collect();
        for fields in [json!({}), json!({"model": "m", "stream": true})] {
            let mut whole = fields.clone();
            whole["tools"] = json!(tools);
            let fields = fields.as_object().expect("an object").clone();
            assert_eq!(ProviderRequestBody::new(fields).offering(&offers, write).read(), whole);
        }
    }

    #[test]
    fn an_existing_tools_field_wins_and_no_tools_give_no_field() {
        let own = json!({"tools": ["own"]});
        let fields = own.as_object().expect("an object").clone();
        assert_eq!(ProviderRequestBody::new(fields).offering(&[offer("one")], write).read(), own);
        assert_eq!(ProviderRequestBody::new(Map::new()).offering(&[], write).read(), json!({}));
    }
}
