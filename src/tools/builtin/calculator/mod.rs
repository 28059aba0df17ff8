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

use super::builtin_tool::{BuiltinTool, spec};
use crate::domain::tool::ToolTraits;
use crate::ports::{CancelToken, Tool, ToolContext, ToolError};
use crate::tools::registry::ToolDeps;
use error::CalculatorError;
use serde::Deserialize;
use serde_json::json;

const EXPRESSION_CHARS: usize = 4_000;

#[derive(Deserialize)]
struct CalculatorArguments {
    expression: String,
}

pub(super) fn register(_: &ToolDeps) -> Box<dyn Tool> {
    let spec = spec(
        "calculator",
        "Evaluate an arithmetic expression in Python syntax (** is power), with big integers and Python's math functions.",
        json!({
            "expression": {"type": "string", "maxLength": EXPRESSION_CHARS},
        }),
        &["expression"],
    );
    let run = |CalculatorArguments { expression }: CalculatorArguments, context: &ToolContext| {
        let value = calculate(&expression, &context.cancel);
        value
            .map(|value| json!({"result": value.to_json()}))
            .map_err(|error| ToolError::failed(error.to_string()))
    };
    Box::new(BuiltinTool::new(spec, ToolTraits::PURE, run))
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
