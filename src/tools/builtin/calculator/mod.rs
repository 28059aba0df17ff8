//! `calculator`: arithmetic as Python does it. Owns the tool's face and the form of its numbers; the language itself is
//! in [`lexer`] → [`parser`] → [`evaluator`]. Refuses names it does not know, and everything without a bound: depth,
//! length and digits are limited, so that `9**9**9` is a quick error (P8).

mod arithmetic;
mod error;
mod evaluator;
mod expression;
mod floats;
mod functions;
mod lexer;
mod parser;
mod power;
mod statistics;
mod value;

use crate::tools::registry::ToolDeps;
use crate::domain::tool::{ToolSpec, ToolTraits};
use crate::ports::{Tool, ToolContext, ToolError};
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
                          & | ^ ~ << >> (^ is XOR, ** is power), big integers, and the functions and constants of \
                          Python's math module (sqrt, sin, log, factorial, gcd, comb, floor, round, min, max, sum, pi, e …).".into(),
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
        let is_stopped = || context.cancel.is_cancelled();
        match calculate(expression, &is_stopped) {
            Ok(value) => Ok(json!({"result": value.to_json()})),
            Err(error) => Err(ToolError::Failed { message: error.to_string(), data: Value::Null }),
        }
    }
}

/// The value of an expression; `is_stopped` is asked between operations.
fn calculate(expression: &str, is_stopped: &dyn Fn() -> bool) -> Result<value::Value, CalculatorError> {
    if expression.chars().count() > EXPRESSION_CHARS {
        return Err(CalculatorError::TooLong(EXPRESSION_CHARS));
    }
    evaluator::evaluate(&parser::parse(&lexer::scan(expression)?)?, is_stopped)
}

#[cfg(test)]
mod tests;
