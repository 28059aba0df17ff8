//! Functions and constants: the usual ones of Python's `math` and of its built-ins. Error texts are
//! Python's.

use super::error::CalculatorError;
use super::numbers;
use super::power::{power, power_modulo};
use super::value::{Value, from_whole};
use num_bigint::BigInt;
use num_traits::Signed;
use std::f64::consts;

/// A function and its arguments.
enum Function {
    /// One float; an infinite result of a finite number is too large for a float.
    Growing(fn(f64) -> f64),
    /// One float; an infinite result of a finite number is a domain error.
    Float(fn(f64) -> f64),
    /// Two floats.
    Floats(fn(f64, f64) -> f64),
    /// Any arguments, which the function checks itself.
    Free(fn(&[Value]) -> Option<Result<Value, CalculatorError>>, &'static str),
}

/// The constant of this name.
pub(super) fn constant(name: &str) -> Option<Value> {
    Some(match name {
        "pi" | "π" => Value::Float(consts::PI),
        "e" => Value::Float(consts::E),
        "tau" | "τ" => Value::Float(consts::TAU),
        "inf" => Value::Float(f64::INFINITY),
        "nan" => Value::Float(f64::NAN),
        "True" | "true" => Value::Bool(true),
        "False" | "false" => Value::Bool(false),
        _ => return None,
    })
}

/// Whether there is such a function.
pub(super) fn is_known(name: &str) -> bool {
    function(name).is_some()
}

/// Calls it.
pub(super) fn call(name: &str, arguments: &[Value]) -> Result<Value, CalculatorError> {
    let wrong = |takes| CalculatorError::Arguments { function: name.to_owned(), takes };
    match (function(name), arguments) {
        (None, _) => Err(CalculatorError::Name(name.to_owned())),
        (Some(Function::Growing(operation)), [x]) => {
            checked(x.float()?, operation, "the result is too large for a float").map(Value::Float)
        }
        (Some(Function::Float(operation)), [x]) => {
            checked(x.float()?, operation, "math domain error").map(Value::Float)
        }
        (Some(Function::Floats(operation)), [x, y]) => {
            let (x, y) = (x.float()?, y.float()?);
            let result = operation(x, y);
            let is_undefined = result.is_nan() && !x.is_nan() && !y.is_nan();
            if is_undefined {
                Err(CalculatorError::math("math domain error"))
            } else {
                Ok(Value::Float(result))
            }
        }
        (Some(Function::Free(operation, takes)), _) => operation(arguments).ok_or_else(|| wrong(takes))?,
        (Some(Function::Floats(_)), _) => Err(wrong("two numbers")),
        (Some(_), _) => Err(wrong("one number")),
    }
}

fn checked(x: f64, operation: fn(f64) -> f64, infinite_error: &str) -> Result<f64, CalculatorError> {
    let result = operation(x);
    if result.is_nan() && !x.is_nan() {
        return Err(CalculatorError::math("math domain error"));
    }
    if result.is_infinite() && x.is_finite() {
        Err(CalculatorError::math(infinite_error))
    } else {
        Ok(result)
    }
}

fn function(name: &str) -> Option<Function> {
    floating(name).or_else(|| {
        use Function::Free;
        Some(match name {
            "abs" => Free(absolute, "one number"),
            "bool" => Free(|a| unary(a, |x| Ok(Value::Bool(x.is_true()))), "one number"),
            "ceil" => Free(|a| unary(a, |x| rounded(x, f64::ceil)), "one number"),
            "floor" => Free(|a| unary(a, |x| rounded(x, f64::floor)), "one number"),
            "trunc" | "int" => Free(|a| unary(a, |x| rounded(x, f64::trunc)), "one number"),
            "float" => Free(|a| unary(a, |x| x.float().map(Value::Float)), "one number"),
            "log" | "ln" => Free(numbers::log, "a number and, if you like, a base"),
            "log2" => Free(|a| unary(a, |x| numbers::log_of(x, consts::LN_2, f64::log2)), "one number"),
            "log10" => Free(|a| unary(a, |x| numbers::log_of(x, consts::LN_10, f64::log10)), "one number"),
            "pow" => Free(pow, "a base, an exponent and, if you like, a modulus"),
            "round" => Free(numbers::round, "a number and, if you like, how many digits"),
            "comb" => Free(numbers::comb, "two integers"),
            "perm" => Free(numbers::perm, "one or two integers"),
            "factorial" => Free(numbers::factorial, "one integer"),
            "gcd" => Free(numbers::gcd, "integers"),
            "lcm" => Free(numbers::lcm, "integers"),
            "isqrt" => Free(numbers::isqrt, "one integer"),
            "hypot" => Free(|a| Some(numbers::hypot(a)), "numbers"),
            "len" => Free(numbers::len, "a list"),
            "max" => Free(|a| numbers::extreme(a, true), "at least one number"),
            "min" => Free(|a| numbers::extreme(a, false), "at least one number"),
            "prod" => Free(|a| Some(numbers::product(a)), "numbers"),
            "sum" | "fsum" => Free(|a| Some(numbers::sum(a)), "numbers"),
            _ => return None,
        })
    })
}

fn floating(name: &str) -> Option<Function> {
    use Function::{Float, Floats, Growing};
    Some(match name {
        "acos" => Float(f64::acos),
        "acosh" => Float(f64::acosh),
        "asin" => Float(f64::asin),
        "asinh" => Float(f64::asinh),
        "atan" => Float(f64::atan),
        "atan2" => Floats(f64::atan2),
        "atanh" => Float(f64::atanh),
        "cbrt" => Float(f64::cbrt),
        "cos" => Float(f64::cos),
        "cosh" => Growing(f64::cosh),
        "degrees" => Growing(f64::to_degrees),
        "exp" => Growing(f64::exp),
        "fmod" => Floats(|x, y| x % y),
        "radians" => Float(f64::to_radians),
        "sin" => Float(f64::sin),
        "sinh" => Growing(f64::sinh),
        "sqrt" => Float(f64::sqrt),
        "tan" => Float(f64::tan),
        "tanh" => Float(f64::tanh),
        _ => return None,
    })
}

fn unary(
    arguments: &[Value],
    operation: impl FnOnce(&Value) -> Result<Value, CalculatorError>,
) -> Option<Result<Value, CalculatorError>> {
    match arguments {
        [x] => Some(operation(x)),
        _ => None,
    }
}

fn absolute(arguments: &[Value]) -> Option<Result<Value, CalculatorError>> {
    unary(arguments, |x| match x.int() {
        Some(number) => Ok(Value::Int(number.abs())),
        None => x.float().map(|float| Value::Float(float.abs())),
    })
}

fn rounded(x: &Value, round: fn(f64) -> f64) -> Result<Value, CalculatorError> {
    match x.int() {
        Some(number) => Ok(Value::Int(number)),
        None => from_whole(round(x.float()?)),
    }
}

fn pow(arguments: &[Value]) -> Option<Result<Value, CalculatorError>> {
    match arguments {
        [base, exponent] => Some(power(base, exponent)),
        [base, exponent, modulus] => {
            let numbers: Option<Vec<BigInt>> =
                [base, exponent, modulus].into_iter().map(Value::int).collect();
            let [base, exponent, modulus] = numbers?.try_into().ok()?;
            Some(power_modulo(&base, &exponent, &modulus).map(Value::Int))
        }
        _ => None,
    }
}
