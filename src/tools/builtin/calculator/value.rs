//! Numbers as Python has them: integers of up to 10,000 digits, floats, truth values, and lists of these.

use super::error::CalculatorError;
use num_bigint::BigInt;
use num_traits::{FromPrimitive, ToPrimitive, Zero};
use serde_json::Number;
use std::cmp::Ordering;

/// The longest integer, decimal digits.
pub(super) const DIGITS: u64 = 10_000;
/// The same in bits: `DIGITS` × log2(10).
const BITS: u64 = 33_220;

/// A number, a truth value or a list.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// An integer.
    Int(BigInt),
    /// A float.
    Float(f64),
    /// `True` or `False`; counts as 1 or 0.
    Bool(bool),
    List(Vec<Value>),
}

/// Two numbers of one kind.
pub(super) enum NumberPair {
    /// Both are integers.
    Ints(BigInt, BigInt),
    /// At least one is a float.
    Floats(f64, f64),
}

/// The integer, unless it is too long.
pub(super) fn bounded(number: BigInt) -> Result<BigInt, CalculatorError> {
    allow_bits(number.bits())?;
    Ok(number)
}

/// An error if integers of this length are not allowed.
pub(super) fn allow_bits(bits: u64) -> Result<(), CalculatorError> {
    if bits > BITS { Err(CalculatorError::TooManyDigits(DIGITS)) } else { Ok(()) }
}

/// The nearest float, or Python's error.
pub(super) fn to_float(number: &BigInt) -> Result<f64, CalculatorError> {
    match number.to_f64() {
        Some(float) if float.is_finite() => Ok(float),
        _ => Err(CalculatorError::math("int too large to convert to float")),
    }
}

/// The integer of a float without a fraction.
pub(super) fn from_whole(float: f64) -> Result<Value, CalculatorError> {
    let number = BigInt::from_f64(float);
    number
        .map(Value::Int)
        .ok_or_else(|| CalculatorError::math("cannot convert infinity or nan to an integer"))
}

impl Value {
    /// As an integer, if it is one.
    pub(super) fn int(&self) -> Option<BigInt> {
        match self {
            Self::Int(number) => Some(number.clone()),
            Self::Bool(truth) => Some(BigInt::from(u8::from(*truth))),
            Self::Float(_) | Self::List(_) => None,
        }
    }

    /// As a float.
    pub(super) fn float(&self) -> Result<f64, CalculatorError> {
        match self {
            Self::Int(number) => to_float(number),
            Self::Float(float) => Ok(*float),
            Self::Bool(truth) => Ok(f64::from(u8::from(*truth))),
            Self::List(_) => Err(CalculatorError::math("a list is not a number")),
        }
    }

    /// Both as integers if they are, as floats otherwise.
    pub(super) fn pair(&self, other: &Self) -> Result<NumberPair, CalculatorError> {
        match (self.int(), other.int()) {
            (Some(a), Some(b)) => Ok(NumberPair::Ints(a, b)),
            _ => Ok(NumberPair::Floats(self.float()?, other.float()?)),
        }
    }

    /// Whether it counts as true.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Int(number) => !number.is_zero(),
            Self::Float(float) => *float != 0.0,
            Self::Bool(truth) => *truth,
            Self::List(items) => !items.is_empty(),
        }
    }

    /// The order of two numbers, exact between integers and floats; `None` where there is no order (nan).
    pub(super) fn order(&self, other: &Self) -> Result<Option<Ordering>, CalculatorError> {
        match (self, other) {
            (Self::List(_), _) | (_, Self::List(_)) => Err(CalculatorError::math("a list is not a number")),
            (Self::Float(a), Self::Float(b)) => Ok(a.partial_cmp(b)),
            (Self::Float(float), int) => Ok(order_with_float(int, *float).map(Ordering::reverse)),
            (int, Self::Float(float)) => Ok(order_with_float(int, *float)),
            (a, b) => Ok(a.int().zip(b.int()).map(|(a, b)| a.cmp(&b))),
        }
    }

    /// Integers of 64 bits as numbers, longer ones as texts; floats in the shortest exact form.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Bool(truth) => serde_json::Value::Bool(*truth),
            Self::List(items) => items.iter().map(Self::to_json).collect(),
            Self::Float(float) => {
                Number::from_f64(*float).map_or_else(|| special(*float), serde_json::Value::Number)
            }
            Self::Int(number) => match (i64::try_from(number), u64::try_from(number)) {
                (Ok(small), _) => small.into(),
                (_, Ok(large)) => large.into(),
                _ => number.to_string().into(),
            },
        }
    }
}

fn order_with_float(int: &Value, float: f64) -> Option<Ordering> {
    let int = int.int()?;
    if float.is_infinite() {
        return Some(if float > 0.0 { Ordering::Less } else { Ordering::Greater });
    }
    let floor = BigInt::from_f64(float.floor())?;
    let fraction = if float.fract() == 0.0 { Ordering::Equal } else { Ordering::Less };
    Some(int.cmp(&floor).then(fraction))
}

/// Texts for floats that JSON cannot represent.
fn special(float: f64) -> serde_json::Value {
    let word = if float.is_nan() {
        "nan"
    } else if float > 0.0 {
        "inf"
    } else {
        "-inf"
    };
    word.into()
}
