//! What Python's `math` knows about floats beyond one-number functions: their parts, their neighbours, distances. Owns how
//! each is computed; `None` means that the arguments are not theirs.

use super::error::CalculatorError;
use super::statistics;
use super::value::Value;
use num_bigint::BigInt;
use num_traits::{Signed, ToPrimitive};

/// Relative difference at which two numbers are close, as in Python.
const CLOSE: f64 = 1e-9;
/// Powers of two beyond which no float changes any more.
const EXPONENT: i32 = 5_000;

type Called = Option<Result<Value, CalculatorError>>;
type Act = fn(&[Value]) -> Called;

/// The function of this name, and what it takes.
pub(super) fn function(name: &str) -> Option<(Act, &'static str)> {
    Some(match name {
        "dist" => (dist, "two lists of numbers, as long as each other"),
        "fma" => (fma, "three numbers"),
        "frexp" => (frexp, "one number"),
        "gamma" => (gamma, "one number"),
        "isclose" => (isclose, "two numbers and, if you like, a relative and an absolute tolerance"),
        "ldexp" => (ldexp, "a number and an integer"),
        "modf" => (modf, "one number"),
        "nextafter" => (nextafter, "two numbers"),
        "remainder" => (remainder, "two numbers"),
        "sumprod" => (sumprod, "two lists of numbers, as long as each other"),
        "ulp" => (ulp, "one number"),
        _ => return None,
    })
}

fn floats<const N: usize>(arguments: &[Value]) -> Option<Result<[f64; N], CalculatorError>> {
    if arguments.len() != N {
        return None;
    }
    let mut found = [0.0; N];
    for (slot, value) in found.iter_mut().zip(arguments) {
        match value.float() {
            Ok(float) => *slot = float,
            Err(error) => return Some(Err(error)),
        }
    }
    Some(Ok(found))
}

fn pairs(arguments: &[Value]) -> Option<Vec<(&Value, &Value)>> {
    match arguments {
        [Value::List(one), Value::List(other)] if one.len() == other.len() => {
            Some(one.iter().zip(other).collect())
        }
        _ => None,
    }
}

fn dist(arguments: &[Value]) -> Called {
    let mut sum = 0.0_f64;
    for (one, other) in pairs(arguments)? {
        match (one.float(), other.float()) {
            (Ok(one), Ok(other)) => sum = sum.hypot(one - other),
            (Err(error), _) | (_, Err(error)) => return Some(Err(error)),
        }
    }
    Some(Ok(Value::Float(sum)))
}

fn sumprod(arguments: &[Value]) -> Called {
    let products = pairs(arguments)?.into_iter();
    let products = products.map(|(one, other)| statistics::product(&[one.clone(), other.clone()]));
    let products: Result<Vec<Value>, CalculatorError> = products.collect();
    Some(products.and_then(|products| statistics::sum(&[Value::List(products)])))
}

fn fma(arguments: &[Value]) -> Called {
    Some(floats(arguments)?.map(|[x, y, z]| Value::Float(x.mul_add(y, z))))
}

fn gamma(arguments: &[Value]) -> Called {
    Some(floats(arguments)?.and_then(|[x]| {
        if x == f64::NEG_INFINITY || (x <= 0.0 && x.fract() == 0.0) {
            return Err(CalculatorError::math("math domain error"));
        }
        let result = libm::tgamma(x);
        let is_too_large = result.is_infinite() && x.is_finite();
        if is_too_large {
            Err(CalculatorError::math("the result is too large for a float"))
        } else {
            Ok(Value::Float(result))
        }
    }))
}

fn frexp(arguments: &[Value]) -> Called {
    Some(floats(arguments)?.map(|[x]| {
        let (mantissa, exponent) = libm::frexp(x);
        Value::List(vec![Value::Float(mantissa), Value::Int(BigInt::from(exponent))])
    }))
}

fn modf(arguments: &[Value]) -> Called {
    Some(floats(arguments)?.map(|[x]| {
        let (fraction, whole) = libm::modf(x);
        Value::List(vec![Value::Float(fraction), Value::Float(whole)])
    }))
}

fn ldexp(arguments: &[Value]) -> Called {
    let [x, power] = arguments else { return None };
    let power = power.int()?;
    let endless = if power.is_negative() { -EXPONENT } else { EXPONENT };
    let power = power.to_i32().unwrap_or(endless).clamp(-EXPONENT, EXPONENT);
    Some(x.float().and_then(|x| {
        let result = libm::ldexp(x, power);
        let is_too_large = result.is_infinite() && x.is_finite();
        if is_too_large {
            Err(CalculatorError::math("the result is too large for a float"))
        } else {
            Ok(Value::Float(result))
        }
    }))
}

fn isclose(arguments: &[Value]) -> Called {
    let (numbers, tolerances) = arguments.split_at_checked(2)?;
    let tolerances = match tolerances {
        [] => Ok((CLOSE, 0.0)),
        [relative] => relative.float().map(|relative| (relative, 0.0)),
        [relative, absolute] => relative.float().and_then(|r| absolute.float().map(|a| (r, a))),
        _ => return None,
    };
    Some(floats(numbers)?.and_then(|[a, b]| {
        let (relative, absolute) = tolerances?;
        let is_close = a.is_finite() && b.is_finite() && {
            (a - b).abs() <= (relative * a.abs().max(b.abs())).max(absolute)
        };
        // Infinities are close to themselves alone.
        Ok(Value::Bool(is_close || a.total_cmp(&b).is_eq() && !a.is_nan()))
    }))
}

fn nextafter(arguments: &[Value]) -> Called {
    Some(floats(arguments)?.map(|[x, y]| Value::Float(libm::nextafter(x, y))))
}

fn remainder(arguments: &[Value]) -> Called {
    Some(floats(arguments)?.and_then(|[x, y]| {
        let result = libm::remainder(x, y);
        let is_odd = result.is_nan() && !x.is_nan() && !y.is_nan();
        if is_odd { Err(CalculatorError::math("math domain error")) } else { Ok(Value::Float(result)) }
    }))
}

fn ulp(arguments: &[Value]) -> Called {
    Some(floats(arguments)?.map(|[x]| {
        let x = x.abs();
        let above = libm::nextafter(x, f64::INFINITY);
        // The largest float has no neighbour above.
        let distance = if above.is_infinite() { x - libm::nextafter(x, 0.0) } else { above - x };
        Value::Float(if x.is_infinite() || x.is_nan() { x } else { distance })
    }))
}
