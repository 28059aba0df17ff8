//! `get_weather`: a simulated table, and labelled as such. Owns its rows; refuses the network.

use super::registry::ToolDeps;
use crate::domain::tool::{ToolSpec, ToolTraits};
use crate::ports::{Tool, ToolContext, ToolError};
use serde_json::{Map, Value, json};

struct GetWeather;

/// For the registry.
pub(super) fn register(_: &ToolDeps) -> Box<dyn Tool> {
    Box::new(GetWeather)
}

struct Row {
    /// In every spelling that is understood.
    names: [&'static str; 2],
    temperature: i32,
    humidity: u32,
    description: &'static str,
}

const TABLE: [Row; 4] = [
    Row { names: ["北京", "beijing"], temperature: 25, humidity: 60, description: "晴天" },
    Row { names: ["上海", "shanghai"], temperature: 28, humidity: 75, description: "多云" },
    Row { names: ["广州", "guangzhou"], temperature: 32, humidity: 85, description: "雷阵雨" },
    Row { names: ["深圳", "shenzhen"], temperature: 30, humidity: 80, description: "阴天" },
];
const ELSEWHERE: Row = Row { names: ["", ""], temperature: 22, humidity: 65, description: "晴天" };
/// The table's own time: it is not a measurement.
const QUERY_TIME: &str = "2024-01-01 12:00:00";

impl Tool for GetWeather {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "get_weather".into(),
            description: "Weather of a city. SIMULATED: the figures come from a fixed table, not from a weather service; \
                          say so when you use them.".into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "city": {"type": "string", "minLength": 1, "maxLength": 100, "description": "The city's name, like 北京 or Beijing"},
                },
                "required": ["city"],
                "additionalProperties": false,
            }),
        }
    }

    fn traits(&self) -> ToolTraits {
        ToolTraits::PURE
    }

    fn call(&self, arguments: &Map<String, Value>, _: &ToolContext) -> Result<Value, ToolError> {
        let city = arguments.get("city").and_then(Value::as_str).unwrap_or_default();
        let asked = city.trim().to_lowercase();
        let row = TABLE.iter().find(|row| row.names.contains(&asked.as_str())).unwrap_or(&ELSEWHERE);
        Ok(json!({
            "city": city,
            "temperature": row.temperature,
            "humidity": row.humidity,
            "description": row.description,
            "query_time": QUERY_TIME,
            "simulated": true,
        }))
    }
}
