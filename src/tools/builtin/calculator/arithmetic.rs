//! Operators as Python has them: `+ - * / // %`, bits and shifts. Powers are in [`super::power`].

use super::error::CalculatorError;
use super::expression::{BinaryOperator, ComparisonOperator, UnaryOperator};
use super::power::power;
use super::value::{NumberPair, Value, allow_bits, bounded, to_float};
use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{Signed, ToPrimitive, Zero};
use std::cmp::Ordering;

/// Bits of a quotient before it is rounded to a float: more than a float keeps.
const QUOTIENT_BITS: u64 = 66;

/// A sign before its operand.
pub(super) fn unary(sign: UnaryOperator, value: &Value) -> Result<Value, CalculatorError> {
    if sign == UnaryOperator::Not {
        return Ok(Value::Bool(!value.is_true()));
    }
    match (sign, value.int()) {
        (UnaryOperator::Plus, Some(number)) => Ok(Value::Int(number)),
        (UnaryOperator::Minus, Some(number)) => Ok(Value::Int(-number)),
        (UnaryOperator::Invert, Some(number)) => Ok(Value::Int(-number - 1)),
        (UnaryOperator::Plus, None) => value.float().map(Value::Float),
        (UnaryOperator::Minus, None) => value.float().map(|float| Value::Float(-float)),
        _ => Err(CalculatorError::math("~ takes integers only")),
    }
}

/// An operator between its operands.
pub(super) fn binary(operator: BinaryOperator, a: &Value, b: &Value) -> Result<Value, CalculatorError> {
    match operator {
        BinaryOperator::Power => power(a, b),
        BinaryOperator::BitAnd => bits(a, b, |a, b| Ok(a & b)),
        BinaryOperator::BitOr => bits(a, b, |a, b| Ok(a | b)),
        BinaryOperator::BitXor => bits(a, b, |a, b| Ok(a ^ b)),
        BinaryOperator::ShiftLeft => bits(a, b, |a, b| shift_left(&a, &b)),
        BinaryOperator::ShiftRight => bits(a, b, |a, b| shift_right(&a, &b)),
        _ => match a.pair(b)? {
            NumberPair::Ints(a, b) => ints(operator, &a, &b),
            NumberPair::Floats(a, b) => floats(operator, a, b).map(Value::Float),
        },
    }
}

/// Whether a comparison holds.
pub(super) fn holds(comparison: ComparisonOperator, a: &Value, b: &Value) -> Result<bool, CalculatorError> {
    let order = a.order(b)?;
    Ok(match comparison {
        ComparisonOperator::Less => order == Some(Ordering::Less),
        ComparisonOperator::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        ComparisonOperator::Greater => order == Some(Ordering::Greater),
        ComparisonOperator::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        ComparisonOperator::Equal => order == Some(Ordering::Equal),
        ComparisonOperator::NotEqual => order != Some(Ordering::Equal),
    })
}

fn ints(operator: BinaryOperator, a: &BigInt, b: &BigInt) -> Result<Value, CalculatorError> {
    let divides =
        matches!(operator, BinaryOperator::Divide | BinaryOperator::FloorDivide | BinaryOperator::Modulo);
    if divides && b.is_zero() {
        return Err(CalculatorError::math("division by zero"));
    }
    match operator {
        BinaryOperator::Add => bounded(a + b).map(Value::Int),
        BinaryOperator::Subtract => bounded(a - b).map(Value::Int),
        BinaryOperator::Divide => quotient(a, b).map(Value::Float),
        BinaryOperator::FloorDivide => Ok(Value::Int(a.div_floor(b))),
        BinaryOperator::Modulo => Ok(Value::Int(a.mod_floor(b))),
        _ => {
            allow_bits(a.bits().saturating_add(b.bits()).saturating_sub(1))?;
            Ok(Value::Int(a * b))
        }
    }
}

/// The float nearest to the exact quotient, however long the integers are.
fn quotient(a: &BigInt, b: &BigInt) -> Result<f64, CalculatorError> {
    let shift = QUOTIENT_BITS.saturating_add(b.bits()).saturating_sub(a.bits());
    let (whole, remainder) = (a.abs() << shift).div_rem(&b.abs());
    // A lowest bit for any remainder makes the only rounding at the end correct.
    let rounded_odd = if remainder.is_zero() { whole } else { whole | BigInt::from(1) };
    let too_large = || CalculatorError::math("integer division result too large for a float");
    let size = if shift == 0 {
        to_float(&rounded_odd).map_err(|_| too_large())?
    } else {
        scaled(&rounded_odd, shift)
    };
    Ok(if a.is_negative() == b.is_negative() { size } else { -size })
}

/// `number / 2**shift` in two steps, since `2**shift` alone may be too large for a float.
fn scaled(number: &BigInt, shift: u64) -> f64 {
    let half = |bits: u64| 2f64.powi(-i32::try_from(bits).unwrap_or(i32::MAX));
    let first = shift / 2;
    number.to_f64().unwrap_or(f64::INFINITY) * half(first) * half(shift.saturating_sub(first))
}

fn floats(operator: BinaryOperator, a: f64, b: f64) -> Result<f64, CalculatorError> {
    match operator {
        BinaryOperator::Add => Ok(a + b),
        BinaryOperator::Subtract => Ok(a - b),
        BinaryOperator::Multiply => Ok(a * b),
        _ if b == 0.0 => Err(CalculatorError::math("division by zero")),
        BinaryOperator::Divide => Ok(a / b),
        BinaryOperator::FloorDivide => Ok(divide_floats(a, b).0),
        _ => Ok(divide_floats(a, b).1),
    }
}

/// Quotient rounded down and remainder with the divisor's sign, as `float_divmod` of `CPython` finds them.
fn divide_floats(a: f64, b: f64) -> (f64, f64) {
    let mut remainder = a % b;
    let mut quotient = (a - remainder) / b;
    if remainder == 0.0 {
        remainder = 0f64.copysign(b);
    } else if (b < 0.0) != (remainder < 0.0) {
        remainder += b;
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return (0f64.copysign(a / b), remainder);
    }
    let floor = quotient.floor();
    (if quotient - floor > 0.5 { floor + 1.0 } else { floor }, remainder)
}

fn bits(
    a: &Value,
    b: &Value,
    operation: impl FnOnce(BigInt, BigInt) -> Result<BigInt, CalculatorError>,
) -> Result<Value, CalculatorError> {
    match (a.int(), b.int()) {
        (Some(a), Some(b)) => operation(a, b).map(Value::Int),
        _ => Err(CalculatorError::math("& | ^ << >> take integers only (a power is written **)")),
    }
}

fn shift_left(a: &BigInt, by: &BigInt) -> Result<BigInt, CalculatorError> {
    if by.is_negative() {
        return Err(CalculatorError::math("negative shift count"));
    }
    if a.is_zero() {
        return Ok(BigInt::ZERO);
    }
    let by = u64::try_from(by).unwrap_or(u64::MAX);
    allow_bits(a.bits().saturating_add(by))?;
    Ok(a << by)
}

fn shift_right(a: &BigInt, by: &BigInt) -> Result<BigInt, CalculatorError> {
    if by.is_negative() {
        return Err(CalculatorError::math("negative shift count"));
    }
    // A shift beyond the length leaves only the sign.
    Ok(a >> u64::try_from(by).unwrap_or(u64::MAX).min(a.bits().saturating_add(1)))
}
