//! Builds the tree of an expression from its tokens, with Python's precedence and a limit on nesting.
//!
//! From loosest to tightest: `if else` · `or` · `and` · `not` · comparisons · `|` · `^` · `&` · `<< >>` ·
//! `+ -` · `* / // %` · signs · `**` (to the right, and tighter than a sign on its left).

use super::error::CalculatorError;
use super::expression::{BinaryOperator, ComparisonOperator, Expression, UnaryOperator};
use super::lexer::{ExpressionToken, TokenKind};

/// Deepest nesting.
const DEPTH: usize = 64;

/// Levels of chained operators, loosest first.
const CHAINS: [&[(&str, BinaryOperator)]; 6] = [
    &[("|", BinaryOperator::BitOr)],
    &[("^", BinaryOperator::BitXor)],
    &[("&", BinaryOperator::BitAnd)],
    &[("<<", BinaryOperator::ShiftLeft), (">>", BinaryOperator::ShiftRight)],
    &[("+", BinaryOperator::Add), ("-", BinaryOperator::Subtract)],
    &[
        ("*", BinaryOperator::Multiply),
        ("//", BinaryOperator::FloorDivide),
        ("/", BinaryOperator::Divide),
        ("%", BinaryOperator::Modulo),
    ],
];

const COMPARISONS: [(&str, ComparisonOperator); 6] = [
    ("<", ComparisonOperator::Less),
    ("<=", ComparisonOperator::LessOrEqual),
    (">", ComparisonOperator::Greater),
    (">=", ComparisonOperator::GreaterOrEqual),
    ("==", ComparisonOperator::Equal),
    ("!=", ComparisonOperator::NotEqual),
];

const SIGNS: [(&str, UnaryOperator); 3] =
    [("+", UnaryOperator::Plus), ("-", UnaryOperator::Minus), ("~", UnaryOperator::Invert)];

/// Reads one expression, to the end.
pub(super) fn parse(tokens: &[ExpressionToken]) -> Result<Expression, CalculatorError> {
    let mut parser = ExpressionParser { tokens, next: 0, depth: 0 };
    let expression = parser.expression()?;
    match parser.peek() {
        TokenKind::End => Ok(expression),
        _ => Err(parser.unexpected()),
    }
}

struct ExpressionParser<'a> {
    tokens: &'a [ExpressionToken],
    next: usize,
    depth: usize,
}

type ParsedExpression = Result<Expression, CalculatorError>;

impl ExpressionParser<'_> {
    fn peek(&self) -> &TokenKind {
        self.tokens.get(self.next).map_or(&TokenKind::End, |token| &token.kind)
    }

    fn step(&mut self) {
        self.next = self.next.saturating_add(1);
    }

    fn unexpected(&self) -> CalculatorError {
        let at = self.tokens.get(self.next).map_or(0, |token| token.at);
        let what = match self.peek() {
            TokenKind::End => "the expression ends too early".to_owned(),
            TokenKind::Number(_) => "unexpected number (is an operator missing?)".to_owned(),
            TokenKind::Word(word) => format!("unexpected '{word}'"),
            TokenKind::Sign(sign) => format!("unexpected '{sign}'"),
        };
        CalculatorError::Syntax { at, what }
    }

    fn takes_sign(&mut self, wanted: &str) -> bool {
        let found = matches!(self.peek(), TokenKind::Sign(sign) if *sign == wanted);
        if found {
            self.step();
        }
        found
    }

    fn takes_word(&mut self, wanted: &str) -> bool {
        let found = matches!(self.peek(), TokenKind::Word(word) if word == wanted);
        if found {
            self.step();
        }
        found
    }

    fn takes_one_of<T: Copy>(&mut self, signs: &[(&str, T)]) -> Option<T> {
        let TokenKind::Sign(sign) = self.peek() else { return None };
        let found = signs.iter().find(|(written, _)| written == sign).map(|(_, operator)| *operator);
        if found.is_some() {
            self.step();
        }
        found
    }

    fn must_take(&mut self, sign: &str) -> Result<(), CalculatorError> {
        if self.takes_sign(sign) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Reads something one level deeper.
    fn deeper(&mut self, read: impl FnOnce(&mut Self) -> ParsedExpression) -> ParsedExpression {
        self.depth = self.depth.saturating_add(1);
        if self.depth > DEPTH {
            return Err(CalculatorError::TooDeep(DEPTH));
        }
        let parsed = read(self);
        self.depth = self.depth.saturating_sub(1);
        parsed
    }

    fn expression(&mut self) -> ParsedExpression {
        let then = self.or_expression()?;
        if !self.takes_word("if") {
            return Ok(then);
        }
        let condition = self.or_expression()?;
        if !self.takes_word("else") {
            return Err(self.unexpected());
        }
        let otherwise = self.deeper(Self::expression)?;
        Ok(Expression::If(Box::new([then, condition, otherwise])))
    }

    fn or_expression(&mut self) -> ParsedExpression {
        let first = self.and_expression()?;
        let mut all = vec![first];
        while self.takes_word("or") {
            all.push(self.and_expression()?);
        }
        Ok(single(all, Expression::Or))
    }

    fn and_expression(&mut self) -> ParsedExpression {
        let mut all = vec![self.not_expression()?];
        while self.takes_word("and") {
            all.push(self.not_expression()?);
        }
        Ok(single(all, Expression::And))
    }

    fn not_expression(&mut self) -> ParsedExpression {
        if self.takes_word("not") {
            let operand = self.deeper(Self::not_expression)?;
            return Ok(Expression::Unary(UnaryOperator::Not, Box::new(operand)));
        }
        let first = self.chain(0)?;
        let mut rest = Vec::new();
        while let Some(comparison) = self.takes_one_of(&COMPARISONS) {
            rest.push((comparison, self.chain(0)?));
        }
        Ok(if rest.is_empty() { first } else { Expression::Compare(Box::new(first), rest) })
    }

    fn chain(&mut self, level: usize) -> ParsedExpression {
        let Some(operators) = CHAINS.get(level) else { return self.signed() };
        let tighter = level.saturating_add(1);
        let first = self.chain(tighter)?;
        let mut rest = Vec::new();
        while let Some(operator) = self.takes_one_of(operators) {
            rest.push((operator, self.chain(tighter)?));
        }
        Ok(if rest.is_empty() { first } else { Expression::Chain(Box::new(first), rest) })
    }

    fn signed(&mut self) -> ParsedExpression {
        match self.takes_one_of(&SIGNS) {
            Some(sign) => Ok(Expression::Unary(sign, Box::new(self.deeper(Self::signed)?))),
            None => self.power(),
        }
    }

    fn power(&mut self) -> ParsedExpression {
        let base = self.atom()?;
        if !self.takes_sign("**") {
            return Ok(base);
        }
        let exponent = self.deeper(Self::signed)?;
        Ok(Expression::Chain(Box::new(base), vec![(BinaryOperator::Power, exponent)]))
    }

    fn atom(&mut self) -> ParsedExpression {
        match self.peek().clone() {
            TokenKind::Number(value) => {
                self.step();
                Ok(Expression::Number(value))
            }
            TokenKind::Word(word) if !matches!(word.as_str(), "and" | "or" | "not" | "if" | "else") => {
                self.step();
                if self.takes_sign("(") {
                    Ok(Expression::Call(word, self.items(")")?))
                } else {
                    Ok(Expression::Name(word))
                }
            }
            TokenKind::Sign("(") => {
                self.step();
                let inner = self.deeper(Self::expression)?;
                self.must_take(")")?;
                Ok(inner)
            }
            TokenKind::Sign("[") => {
                self.step();
                Ok(Expression::List(self.items("]")?))
            }
            _ => Err(self.unexpected()),
        }
    }

    /// The items up to the closing bracket.
    fn items(&mut self, close: &str) -> Result<Vec<Expression>, CalculatorError> {
        let mut items = Vec::new();
        while !self.takes_sign(close) {
            items.push(self.deeper(Self::expression)?);
            if !self.takes_sign(",") {
                self.must_take(close)?;
                break;
            }
        }
        Ok(items)
    }
}

fn single(mut all: Vec<Expression>, combine: fn(Vec<Expression>) -> Expression) -> Expression {
    if all.len() > 1 {
        return combine(all);
    }
    match all.pop() {
        Some(expression) => expression,
        None => combine(all),
    }
}
