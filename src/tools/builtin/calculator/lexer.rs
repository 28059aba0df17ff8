//! Splits an expression into tokens: numbers (decimal, hex, octal, binary, `_`, exponents), names,
//! operators.

use super::error::CalculatorError;
use super::value::{self, Value};
use num_bigint::BigInt;

/// A token and where it begins, in characters from 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ExpressionToken {
    pub(super) kind: TokenKind,
    pub(super) at: usize,
}

/// The kinds of token.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TokenKind {
    /// A number.
    Number(Value),
    /// A function, a constant, or one of `and or not if else`.
    Word(String),
    /// An operator, a bracket or a comma.
    Sign(&'static str),
    /// The end of the text.
    End,
}

/// Signs, the longer ones first.
const SIGNS: [&str; 24] = [
    "**", "//", "<<", ">>", "<=", ">=", "==", "!=", "+", "-", "*", "/", "%", "(", ")", "[", "]", ",", "&",
    "|", "^", "~", "<", ">",
];
/// Signs of mathematics, and their spelling in Python.
const TYPOGRAPHIC: [(&str, &str); 6] =
    [("×", "*"), ("·", "*"), ("÷", "/"), ("−", "-"), ("≤", "<="), ("≥", ">=")];

/// Reads all tokens; the last one is [`TokenKind::End`].
pub(super) fn scan(text: &str) -> Result<Vec<ExpressionToken>, CalculatorError> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let at = text.chars().count().saturating_sub(rest.chars().count()).saturating_add(1);
        let Some(first) = rest.chars().next() else {
            tokens.push(ExpressionToken { kind: TokenKind::End, at });
            return Ok(tokens);
        };
        let starts_with_dot = first == '.' && rest.chars().nth(1).is_some_and(|c| c.is_ascii_digit());
        let (kind, length) = if first.is_ascii_digit() || starts_with_dot {
            number(rest, at)?
        } else if first.is_alphabetic() || first == '_' {
            word(rest)
        } else {
            sign(rest).ok_or_else(|| CalculatorError::Syntax { at, what: format!("unexpected '{first}'") })?
        };
        tokens.push(ExpressionToken { kind, at });
        rest = rest.get(length..).unwrap_or_default();
    }
}

fn sign(rest: &str) -> Option<(TokenKind, usize)> {
    let spellings = SIGNS.iter().map(|sign| (*sign, *sign)).chain(TYPOGRAPHIC);
    let (written, sign) = spellings.into_iter().find(|(written, _)| rest.starts_with(written))?;
    Some((TokenKind::Sign(sign), written.len()))
}

/// `math.sqrt` and `sqrt` are the same.
fn word(rest: &str) -> (TokenKind, usize) {
    let length = run_length(rest, |c| c.is_alphanumeric() || c == '_' || c == '.');
    let word = rest.get(..length).unwrap_or_default();
    (TokenKind::Word(word.strip_prefix("math.").unwrap_or(word).to_owned()), length)
}

fn run_length(text: &str, is_part: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

fn number(rest: &str, at: usize) -> Result<(TokenKind, usize), CalculatorError> {
    let bad = |what: &str| CalculatorError::Syntax { at, what: what.to_owned() };
    let (value, length) = match radix_prefix(rest) {
        Some((radix, length)) => (parse_radix(rest.get(..length).unwrap_or_default(), radix, &bad)?, length),
        None => decimal(rest, &bad)?,
    };
    match rest.get(length..).and_then(|after| after.chars().next()) {
        Some('j' | 'J') => Err(bad("complex numbers are not supported")),
        Some(c) if c.is_alphanumeric() || c == '_' || c == '.' => Err(bad("malformed number")),
        _ => Ok((TokenKind::Number(value), length)),
    }
}

fn radix_prefix(rest: &str) -> Option<(u32, usize)> {
    let radix = match rest.get(..2)?.to_ascii_lowercase().as_str() {
        "0x" => 16,
        "0o" => 8,
        "0b" => 2,
        _ => return None,
    };
    let digits = run_length(rest.get(2..)?, |c| c.is_alphanumeric() || c == '_');
    Some((radix, digits.saturating_add(2)))
}

fn parse_radix(
    text: &str,
    radix: u32,
    bad: &dyn Fn(&str) -> CalculatorError,
) -> Result<Value, CalculatorError> {
    let digits = digits(text.get(2..).unwrap_or_default(), true).ok_or_else(|| bad("malformed number"))?;
    let number = BigInt::parse_bytes(digits.as_bytes(), radix).ok_or_else(|| bad("malformed number"))?;
    Ok(Value::Int(value::bounded(number)?))
}

fn decimal(rest: &str, bad: &dyn Fn(&str) -> CalculatorError) -> Result<(Value, usize), CalculatorError> {
    let is_digit = |c: char| c.is_ascii_digit() || c == '_';
    let after = |from: usize| rest.get(from..).unwrap_or_default();
    let mut length = run_length(rest, is_digit);
    let integer_length = length;
    if after(length).starts_with('.') {
        length = length.saturating_add(1);
        length = length.saturating_add(run_length(after(length), is_digit));
    }
    let exponent = after(length).strip_prefix(['e', 'E']).map(|e| e.strip_prefix(['+', '-']).unwrap_or(e));
    if let Some(exponent) = exponent.filter(|e| e.starts_with(|c: char| c.is_ascii_digit())) {
        length = rest.len().saturating_sub(exponent.len()).saturating_add(run_length(exponent, is_digit));
    }
    let text = rest.get(..length).unwrap_or_default();
    let malformed = || bad("malformed number");
    if length > integer_length {
        let parts = text.split(['.', 'e', 'E', '+', '-']);
        let clean = parts.filter(|part| !part.is_empty()).all(|part| digits(part, false).is_some());
        let float = text.replace('_', "").parse().ok().filter(|_| clean);
        return Ok((Value::Float(float.ok_or_else(malformed)?), length));
    }
    let digits = digits(text, false).ok_or_else(malformed)?;
    if digits.len() > 1 && digits.starts_with('0') && digits.bytes().any(|b| b != b'0') {
        return Err(bad("leading zeros are not allowed; write 0o… for octal"));
    }
    let number = BigInt::parse_bytes(digits.as_bytes(), 10).ok_or_else(malformed)?;
    Ok((Value::Int(value::bounded(number)?), length))
}

/// The digits without their `_`, which may stand singly between two of them (after a prefix: before the first
/// too).
fn digits(text: &str, prefixed: bool) -> Option<String> {
    let starts_valid = prefixed || !text.starts_with('_');
    let has_valid_underscores = starts_valid && !text.ends_with('_') && !text.contains("__");
    let clean = text.replace('_', "");
    (has_valid_underscores && !clean.is_empty()).then_some(clean)
}
