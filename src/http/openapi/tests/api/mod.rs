//! `/api`.

mod accounts;
mod conversations;
pub(super) mod projects;

use super::Drawing;
use super::operation::Operation;
use crate::http::api::envelope::DataResponse;
use crate::http::api::stats::report::TokenReportResponse;
use crate::http::api::{models, tools};
use crate::http::dependencies::AppDependencies;
use serde_json::json;

/// Draws all of it.
pub(super) fn draw(drawing: &mut Drawing, app: &AppDependencies) {
    accounts::draw(drawing, app);
    conversations::draw(drawing, app);
    projects::draw(drawing, app);
    let models = Operation::new("GET", "/api/models", "The models").public();
    let models =
        models.answers::<DataResponse<Vec<models::ModelResponse>>>(drawing, 200, "Id and name of each");
    drawing.add(models);
    let tools = Operation::new("GET", "/api/tools", "The tools").public();
    let tools = tools.answers::<DataResponse<tools::ToolListResponse>>(drawing, 200, "As models are told");
    drawing.add(tools);
    let spent = Operation::new("GET", "/api/stats/tokens", "Tokens by hour or day, and by model")
        .query("period", json!({"enum": ["daily", "weekly", "monthly"]}))
        .query("tz", json!({"type": "string", "minLength": 1, "description": "A zone of the IANA database", "examples": ["UTC", "Europe/Berlin"]}))
        .query("user_id", json!({
            "description": "A user's number, or all (administrators)",
            "anyOf": [{"const": "all"}, {"type": "integer", "minimum": 0, "maximum": u32::MAX}],
        }))
        .answers::<DataResponse<TokenReportResponse>>(drawing, 200, "What was spent");
    drawing.add(spent);
}
