//! Whether an answer has the form that the request wants.

use super::Driver;
use crate::domain::model_settings::ResponseFormat;
use serde_json::Value;

impl Driver<'_> {
    /// Why the answer does not have the form; `None` if it does, or if any will do.
    pub(super) fn answer_fault(&self, answer: &str) -> Option<String> {
        let settings = &self.lease.spec.settings;
        let format = settings.response_format.as_ref().filter(|_| settings.checks_answer)?;
        let value: Value = match serde_json::from_str(answer) {
            Ok(value) => value,
            Err(error) => return Some(format!("it is not JSON ({error})")),
        };
        match format {
            ResponseFormat::JsonObject => (!value.is_object()).then(|| "it is not a JSON object".to_owned()),
            ResponseFormat::JsonSchema { schema, .. } => self.ports.tools.mismatch(schema, &value),
        }
    }
}
