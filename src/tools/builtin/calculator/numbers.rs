//! Functions over integers and over many numbers. `None`: wrong arguments.

use super::arithmetic::binary;
use super::error::CalculatorError;
use super::expression::BinaryOperator;
use super::value::{Value, allow_bits, bounded, from_whole};
use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, Signed, ToPrimitive, Zero};
use std::cmp::Ordering;

/// The most factors of a product: more would always exceed the limit of digits.
const STEPS: u64 = 40_000;
/// Rounding a float to more digits never changes it.
const PLACES: i64 = 400;

type FunctionResult = Option<Result<Value, CalculatorError>>;

fn math(text: &str) -> CalculatorError {
    CalculatorError::math(text)
}

/// The arguments, or the items of the only list.
fn operands(arguments: &[Value]) -> &[Value] {
    match arguments {
        [Value::List(items)] => items,
        arguments => arguments,
    }
}

fn ints(arguments: &[Value]) -> Option<Vec<BigInt>> {
    arguments.iter().map(Value::int).collect()
}

/// `log(x)` and `log(x, base)`
pub(super) fn log(arguments: &[Value]) -> FunctionResult {
    let natural = |x: &Value| natural_log(x);
    match arguments {
        [x] => Some(natural(x).map(Value::Float)),
        [x, base] => Some(natural(x).and_then(|top| match natural(base)? {
            0.0 => Err(math("division by zero")),
            bottom => Ok(Value::Float(top / bottom)),
        })),
        _ => None,
    }
}

/// A logarithm to the base whose natural logarithm is `ln_base`; `exact` is the float function of the same.
pub(super) fn log_of(x: &Value, ln_base: f64, exact: fn(f64) -> f64) -> Result<Value, CalculatorError> {
    let natural = natural_log(x)?;
    Ok(Value::Float(x.float().map_or(natural / ln_base, exact)))
}

fn natural_log(x: &Value) -> Result<f64, CalculatorError> {
    match x.int() {
        // Too long for a float: the highest bits and the length suffice.
        Some(number) if number.is_positive() && number.bits() > 1_000 => {
            let shift = number.bits().saturating_sub(64);
            let top = (number >> shift).to_f64().unwrap_or(1.0);
            Ok(top.ln() + shift.to_f64().unwrap_or(0.0) * std::f64::consts::LN_2)
        }
        _ => match x.float()? {
            float if float > 0.0 || float.is_nan() => Ok(float.ln()),
            _ => Err(math("math domain error")),
        },
    }
}

/// `round(x)` to an integer, `round(x, n)` to n digits; halves go to the even neighbour.
pub(super) fn round(arguments: &[Value]) -> FunctionResult {
    match arguments {
        [x] => Some(match x.int() {
            Some(number) => Ok(Value::Int(number)),
            None => x.float().and_then(|float| from_whole(float.round_ties_even())),
        }),
        [x, digits] => {
            let requested = digits.int()?;
            let places =
                i64::try_from(&requested).unwrap_or(if requested.is_negative() { -PLACES } else { PLACES });
            let places = places.clamp(-PLACES, PLACES);
            Some(match x.int() {
                Some(number) => Ok(Value::Int(round_int(&number, places))),
                None => x.float().map(|float| Value::Float(round_float(float, places))),
            })
        }
        _ => None,
    }
}

fn round_int(number: &BigInt, places: i64) -> BigInt {
    if places >= 0 {
        return number.clone();
    }
    let unit = BigInt::from(10).pow(u32::try_from(places.unsigned_abs()).unwrap_or(0));
    let (floor, rest) = number.div_mod_floor(&unit);
    let up = match (&rest * 2u8).cmp(&unit) {
        Ordering::Less => false,
        Ordering::Greater => true,
        Ordering::Equal => floor.is_odd(),
    };
    (if up { floor + 1 } else { floor }) * unit
}

fn round_float(float: f64, places: i64) -> f64 {
    if !float.is_finite() {
        return float;
    }
    if let Ok(places) = usize::try_from(places) {
        // Formatting rounds the exact decimal value, which is what Python does too.
        return format!("{float:.places$}").parse().unwrap_or(float);
    }
    let unit = 10f64.powi(i32::try_from(places.unsigned_abs()).unwrap_or(i32::MAX));
    if unit.is_finite() { (float / unit).round_ties_even() * unit } else { 0f64.copysign(float) }
}

/// `factorial(n)`
pub(super) fn factorial(arguments: &[Value]) -> FunctionResult {
    let [n] = ints(arguments)?.try_into().ok()?;
    if n.is_negative() {
        return Some(Err(math("factorial() not defined for negative values")));
    }
    Some(falling(&n, &n).map(Value::Int))
}

/// `perm(n, k)`, `perm(n)`
pub(super) fn perm(arguments: &[Value]) -> FunctionResult {
    let numbers = ints(arguments)?;
    let (n, k) = match numbers.as_slice() {
        [n] => (n, n),
        [n, k] => (n, k),
        _ => return None,
    };
    Some(choose(n, k, falling))
}

/// `comb(n, k)`
pub(super) fn comb(arguments: &[Value]) -> FunctionResult {
    let [n, k] = ints(arguments)?.try_into().ok()?;
    Some(choose(&n, &k, |n, k| {
        let k = k.min(&(n - k)).clone();
        let mut result = BigInt::one();
        let mut step = BigInt::zero();
        while step < k {
            // The product of i+1 neighbours is divisible by (i+1)!: no fraction ever arises.
            result = result * (n - &step) / (&step + 1u8);
            allow_bits(result.bits())?;
            step += 1u8;
        }
        Ok(result)
    }))
}

fn choose(
    n: &BigInt,
    k: &BigInt,
    count: fn(&BigInt, &BigInt) -> Result<BigInt, CalculatorError>,
) -> Result<Value, CalculatorError> {
    if n.is_negative() || k.is_negative() {
        return Err(math("n and k must be non-negative integers"));
    }
    if k > n { Ok(Value::Int(BigInt::zero())) } else { count(n, k).map(Value::Int) }
}

/// n × (n−1) × …, k factors.
fn falling(n: &BigInt, k: &BigInt) -> Result<BigInt, CalculatorError> {
    let steps = u64::try_from(k).unwrap_or(u64::MAX);
    if steps > STEPS {
        return Err(allow_bits(u64::MAX).err().unwrap_or(CalculatorError::Stopped));
    }
    (0..steps).try_fold(BigInt::one(), |product, step| bounded(product * (n - step)))
}

/// `gcd(…)`
pub(super) fn gcd(arguments: &[Value]) -> FunctionResult {
    let numbers = ints(operands(arguments))?;
    Some(Ok(Value::Int(numbers.iter().fold(BigInt::zero(), |a, b| a.gcd(b)))))
}

/// `lcm(…)`
pub(super) fn lcm(arguments: &[Value]) -> FunctionResult {
    let numbers = ints(operands(arguments))?;
    Some(numbers.iter().try_fold(BigInt::one(), |a, b| bounded(a.lcm(b))).map(Value::Int))
}

/// `isqrt(n)`
pub(super) fn isqrt(arguments: &[Value]) -> FunctionResult {
    let [n] = ints(arguments)?.try_into().ok()?;
    let negative = || math("isqrt() argument must be nonnegative");
    Some(if n.is_negative() { Err(negative()) } else { Ok(Value::Int(n.sqrt())) })
}

/// `hypot(…)`
pub(super) fn hypot(arguments: &[Value]) -> Result<Value, CalculatorError> {
    let floats: Result<Vec<f64>, CalculatorError> = operands(arguments).iter().map(Value::float).collect();
    floats.map(|all| Value::Float(all.iter().fold(0.0, |sum: f64, x| sum.hypot(*x))))
}

/// `len([…])`
pub(super) fn len(arguments: &[Value]) -> FunctionResult {
    match arguments {
        [Value::List(items)] => Some(Ok(Value::Int(BigInt::from(items.len())))),
        _ => None,
    }
}

/// `max(…)` or `min(…)`; of equals, the first.
pub(super) fn extreme(arguments: &[Value], greatest: bool) -> FunctionResult {
    let better_order = if greatest { Ordering::Greater } else { Ordering::Less };
    let (first, rest) = operands(arguments).split_first()?;
    let better =
        |best: Value, x: &Value| Ok(if x.order(&best)? == Some(better_order) { x.clone() } else { best });
    Some(rest.iter().try_fold(first.clone(), better))
}

/// `sum(…)`
pub(super) fn sum(arguments: &[Value]) -> Result<Value, CalculatorError> {
    let zero = Value::Int(BigInt::zero());
    operands(arguments).iter().try_fold(zero, |sum, x| binary(BinaryOperator::Add, &sum, x))
}

/// `prod(…)`
pub(super) fn product(arguments: &[Value]) -> Result<Value, CalculatorError> {
    let one = Value::Int(BigInt::one());
    operands(arguments).iter().try_fold(one, |product, x| binary(BinaryOperator::Multiply, &product, x))
}
