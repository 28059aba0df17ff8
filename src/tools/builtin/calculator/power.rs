//! `**`, and `pow` with a modulus. A result that Python would give as a complex number is an error.

use super::error::CalculatorError;
use super::value::{NumberPair, Value, allow_bits};
use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, Signed, Zero};

/// `a ** b`
pub(super) fn power(a: &Value, b: &Value) -> Result<Value, CalculatorError> {
    match a.pair(b)? {
        NumberPair::Ints(base, exponent) if exponent.is_negative() => {
            let exponent = Value::Int(exponent).float()?;
            float_power(Value::Int(base).float()?, exponent).map(Value::Float)
        }
        NumberPair::Ints(base, exponent) => int_power(&base, &exponent).map(Value::Int),
        NumberPair::Floats(base, exponent) => float_power(base, exponent).map(Value::Float),
    }
}

fn int_power(base: &BigInt, exponent: &BigInt) -> Result<BigInt, CalculatorError> {
    if exponent.is_zero() {
        return Ok(BigInt::one());
    }
    if base.abs() <= BigInt::one() {
        // 0, 1 and -1 stay small however often they are multiplied.
        return Ok(if base.is_negative() && exponent.is_even() { BigInt::one() } else { base.clone() });
    }
    let times = u64::try_from(exponent).unwrap_or(u64::MAX);
    // A base of n bits is at least 2**(n-1).
    allow_bits(base.bits().saturating_sub(1).saturating_mul(times))?;
    let result = base.pow(u32::try_from(times).unwrap_or(u32::MAX));
    allow_bits(result.bits())?;
    Ok(result)
}

fn float_power(base: f64, exponent: f64) -> Result<f64, CalculatorError> {
    if base == 0.0 && exponent < 0.0 {
        return Err(CalculatorError::math("zero to a negative power (division by zero)"));
    }
    if base < 0.0 && base.is_finite() && exponent.is_finite() && exponent.fract() != 0.0 {
        return Err(CalculatorError::math(
            "a negative number to a fractional power is complex; complex numbers are not supported",
        ));
    }
    let result = base.powf(exponent);
    if result.is_infinite() && base.is_finite() && exponent.is_finite() {
        return Err(CalculatorError::math("the result is too large for a float"));
    }
    Ok(result)
}

/// Multiplications of machine words that one modular power may take: some tenths of a second.
const MODULO_WORK: u64 = 200_000_000;

/// `pow(base, exponent, modulus)`
pub(super) fn power_modulo(
    base: &BigInt,
    exponent: &BigInt,
    modulus: &BigInt,
) -> Result<BigInt, CalculatorError> {
    if modulus.is_zero() {
        return Err(CalculatorError::math("pow() 3rd argument cannot be 0"));
    }
    let words = modulus.bits().div_ceil(64);
    if exponent.bits().saturating_mul(words.saturating_mul(words)) > MODULO_WORK {
        return Err(CalculatorError::math("pow() with a modulus: the numbers are too large"));
    }
    if !exponent.is_negative() {
        return Ok(base.modpow(exponent, modulus));
    }
    let inverse = base
        .modinv(modulus)
        .ok_or_else(|| CalculatorError::math("base is not invertible for the given modulus"))?;
    Ok(inverse.modpow(&-exponent, modulus))
}
