//! Evaluates an expression: `and`, `or` and `if` only the operands that they need. Each step checks for
//! cancellation.

use super::arithmetic::{binary, holds, unary};
use super::error::CalculatorError;
use super::expression::{ComparisonOperator, Expression};
use super::functions;
use super::value::Value;
use crate::ports::CancelToken;

/// The expression's value.
pub(super) fn evaluate(expression: &Expression, cancel: &CancelToken) -> Result<Value, CalculatorError> {
    let value_of = |expression: &Expression| evaluate(expression, cancel);
    if cancel.is_cancelled() {
        return Err(CalculatorError::Stopped);
    }
    match expression {
        Expression::Number(value) => Ok(value.clone()),
        Expression::Name(name) => functions::constant(name).ok_or_else(|| unknown(name)),
        Expression::Unary(sign, operand) => unary(*sign, &value_of(operand)?),
        Expression::Chain(first, rest) => {
            rest.iter().try_fold(value_of(first)?, |left, (operator, right)| {
                binary(*operator, &left, &value_of(right)?)
            })
        }
        Expression::Compare(first, rest) => compare(first, rest, cancel),
        Expression::And(all) => short_circuit(all, false, cancel),
        Expression::Or(all) => short_circuit(all, true, cancel),
        Expression::If(parts) => {
            let [then, condition, otherwise] = parts.as_ref();
            if value_of(condition)?.is_true() { value_of(then) } else { value_of(otherwise) }
        }
        Expression::List(items) => items.iter().map(value_of).collect::<Result<_, _>>().map(Value::List),
        Expression::Call(name, arguments) => {
            if !functions::is_known(name) {
                return Err(unknown(name));
            }
            let arguments = arguments.iter().map(value_of).collect::<Result<Vec<_>, _>>()?;
            functions::call(name, &arguments)
        }
    }
}

fn unknown(name: &str) -> CalculatorError {
    CalculatorError::Name(name.chars().take(40).collect())
}

fn compare(
    first: &Expression,
    rest: &[(ComparisonOperator, Expression)],
    cancel: &CancelToken,
) -> Result<Value, CalculatorError> {
    let mut left = evaluate(first, cancel)?;
    for (comparison, right) in rest {
        let right = evaluate(right, cancel)?;
        if !holds(*comparison, &left, &right)? {
            return Ok(Value::Bool(false));
        }
        left = right;
    }
    Ok(Value::Bool(true))
}

fn short_circuit(all: &[Expression], truth: bool, cancel: &CancelToken) -> Result<Value, CalculatorError> {
    let mut last = Value::Bool(!truth);
    for expression in all {
        last = evaluate(expression, cancel)?;
        if last.is_true() == truth {
            break;
        }
    }
    Ok(last)
}
