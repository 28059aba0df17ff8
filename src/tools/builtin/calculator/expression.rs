//! The tree of an expression. Chains of one level stay flat, so that only brackets, powers and signs make it
//! deep.

use super::value::Value;

/// A part of an expression.
#[derive(Debug)]
pub(super) enum Expression {
    /// A number.
    Number(Value),
    /// A constant.
    Name(String),
    /// A sign before its operand.
    Unary(UnaryOperator, Box<Expression>),
    /// Operators of one level, from left to right.
    Chain(Box<Expression>, Vec<(BinaryOperator, Expression)>),
    /// `a < b <= c`: each pair must hold.
    Compare(Box<Expression>, Vec<(ComparisonOperator, Expression)>),
    /// The first that is false, or the last.
    And(Vec<Expression>),
    /// The first that is true, or the last.
    Or(Vec<Expression>),
    /// `then if condition else otherwise`
    If(Box<[Expression; 3]>),
    /// A function and its arguments.
    Call(String, Vec<Expression>),
    /// A list, as `sum` and `min` take it.
    List(Vec<Expression>),
}

/// Signs before an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnaryOperator {
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `~`
    Invert,
    /// `not`
    Not,
}

/// Operators between two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BinaryOperator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `//`
    FloorDivide,
    /// `%`
    Modulo,
    /// `**`
    Power,
    /// `&`
    BitAnd,
    /// `|`
    BitOr,
    /// `^`
    BitXor,
    /// `<<`
    ShiftLeft,
    /// `>>`
    ShiftRight,
}

/// Comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ComparisonOperator {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
}
