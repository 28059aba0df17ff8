//! `calculator`: arithmetic as Python does it, in three steps: [`lexer`] → [`parser`] → [`evaluator`].
//! Length, depth and digits are limited, so that `9**9**9` is a quick error (P8).

mod arithmetic;
mod error;
mod evaluator;
mod expression;
mod functions;
mod lexer;
mod numbers;
mod parser;
mod power;
mod value;

use crate::tools::registry::ToolDeps;
use crate::domain::tool::{ToolSpec, ToolTraits};
use crate::ports::{CancelToken, Tool, ToolContext, ToolError};
use error::CalculatorError;
use serde_json::{Map, Value, json};

/// Longest expression, characters.
const EXPRESSION_CHARS: usize = 4_000;

struct Calculator;

/// For the registry.
pub(super) fn register(_: &ToolDeps) -> Box<dyn Tool> {
    Box::new(Calculator)
}

impl Tool for Calculator {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "calculator".into(),
            description: "Evaluate an arithmetic expression exactly as Python would: + - * / // % ** ( ), comparisons, \
                          & | ^ ~ << >> (^ is XOR, ** is power), big integers, and Python's usual functions \
                          and constants (sqrt, sin, log, factorial, gcd, comb, floor, round, min, max, sum, pi, e …).".into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "expression": {
                        "type": "string",
                        "maxLength": EXPRESSION_CHARS,
                        "description": "The expression, like (17 * 23 + 4) / 7 or sqrt(2) * pi",
                    },
                },
                "required": ["expression"],
                "additionalProperties": false,
            }),
        }
    }

    fn traits(&self) -> ToolTraits {
        ToolTraits::PURE
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        let expression = arguments.get("expression").and_then(Value::as_str).unwrap_or_default();
        match calculate(expression, &context.cancel) {
            Ok(value) => Ok(json!({"result": value.to_json()})),
            Err(error) => Err(ToolError::Failed { message: error.to_string(), data: Value::Null }),
        }
    }
}

/// The value of an expression; cancellation is checked between operations.
fn calculate(expression: &str, cancel: &CancelToken) -> Result<value::Value, CalculatorError> {
    if expression.chars().count() > EXPRESSION_CHARS {
        return Err(CalculatorError::TooLong(EXPRESSION_CHARS));
    }
    evaluator::evaluate(&parser::parse(&lexer::scan(expression)?)?, cancel)
}

#[cfg(test)]
mod tests;
