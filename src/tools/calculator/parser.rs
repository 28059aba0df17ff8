//! From tokens to the tree, with Python's precedence. Owns the grammar and the bound on its depth.
//!
//! From loosest to tightest: `if else` · `or` · `and` · `not` · comparisons · `|` · `^` · `&` · `<< >>` · `+ -` ·
//! `* / // %` · signs · `**` (to the right, and tighter than a sign on its left).

use super::error::Error;
use super::expression::{Binary, Comparison, Expression, Unary};
use super::lexer::{Kind, Token};

/// Deepest nesting.
const DEPTH: usize = 64;

/// Levels of chained operators, loosest first.
const CHAINS: [&[(&str, Binary)]; 6] = [
    &[("|", Binary::BitOr)],
    &[("^", Binary::BitXor)],
    &[("&", Binary::BitAnd)],
    &[("<<", Binary::ShiftLeft), (">>", Binary::ShiftRight)],
    &[("+", Binary::Add), ("-", Binary::Subtract)],
    &[("*", Binary::Multiply), ("//", Binary::FloorDivide), ("/", Binary::Divide), ("%", Binary::Modulo)],
];

const COMPARISONS: [(&str, Comparison); 6] = [
    ("<", Comparison::Less),
    ("<=", Comparison::LessOrEqual),
    (">", Comparison::Greater),
    (">=", Comparison::GreaterOrEqual),
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
];

const SIGNS: [(&str, Unary); 3] = [("+", Unary::Plus), ("-", Unary::Minus), ("~", Unary::Invert)];

/// Reads one expression, to the end.
pub(super) fn parse(tokens: &[Token]) -> Result<Expression, Error> {
    let mut parser = Parser { tokens, next: 0, depth: 0 };
    let expression = parser.expression()?;
    match parser.peek() {
        Kind::End => Ok(expression),
        _ => Err(parser.unexpected()),
    }
}

struct Parser<'a> {
    tokens: &'a [Token],
    next: usize,
    depth: usize,
}

type Parsed = Result<Expression, Error>;

impl Parser<'_> {
    fn peek(&self) -> &Kind {
        self.tokens.get(self.next).map_or(&Kind::End, |token| &token.kind)
    }

    fn step(&mut self) {
        self.next = self.next.saturating_add(1);
    }

    fn unexpected(&self) -> Error {
        let at = self.tokens.get(self.next).map_or(0, |token| token.at);
        let what = match self.peek() {
            Kind::End => "the expression ends too early".to_owned(),
            Kind::Number(_) => "unexpected number (is an operator missing?)".to_owned(),
            Kind::Word(word) => format!("unexpected '{word}'"),
            Kind::Sign(sign) => format!("unexpected '{sign}'"),
        };
        Error::Syntax { at, what }
    }

    fn takes_sign(&mut self, wanted: &str) -> bool {
        let found = matches!(self.peek(), Kind::Sign(sign) if *sign == wanted);
        if found {
            self.step();
        }
        found
    }

    fn takes_word(&mut self, wanted: &str) -> bool {
        let found = matches!(self.peek(), Kind::Word(word) if word == wanted);
        if found {
            self.step();
        }
        found
    }

    fn takes_one_of<T: Copy>(&mut self, signs: &[(&str, T)]) -> Option<T> {
        let Kind::Sign(sign) = self.peek() else { return None };
        let found = signs.iter().find(|(written, _)| written == sign).map(|(_, meant)| *meant);
        if found.is_some() {
            self.step();
        }
        found
    }

    fn must_take(&mut self, sign: &str) -> Result<(), Error> {
        if self.takes_sign(sign) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Reads something one level deeper.
    fn deeper(&mut self, read: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        self.depth = self.depth.saturating_add(1);
        if self.depth > DEPTH {
            return Err(Error::TooDeep(DEPTH));
        }
        let parsed = read(self);
        self.depth = self.depth.saturating_sub(1);
        parsed
    }

    fn expression(&mut self) -> Parsed {
        let then = self.either()?;
        if !self.takes_word("if") {
            return Ok(then);
        }
        let condition = self.either()?;
        if !self.takes_word("else") {
            return Err(self.unexpected());
        }
        let otherwise = self.deeper(Self::expression)?;
        Ok(Expression::If(Box::new([then, condition, otherwise])))
    }

    fn either(&mut self) -> Parsed {
        let first = self.both()?;
        let mut all = vec![first];
        while self.takes_word("or") {
            all.push(self.both()?);
        }
        Ok(single(all, Expression::Or))
    }

    fn both(&mut self) -> Parsed {
        let mut all = vec![self.negation()?];
        while self.takes_word("and") {
            all.push(self.negation()?);
        }
        Ok(single(all, Expression::And))
    }

    fn negation(&mut self) -> Parsed {
        if self.takes_word("not") {
            let operand = self.deeper(Self::negation)?;
            return Ok(Expression::Unary(Unary::Not, Box::new(operand)));
        }
        let first = self.chain(0)?;
        let mut rest = Vec::new();
        while let Some(comparison) = self.takes_one_of(&COMPARISONS) {
            rest.push((comparison, self.chain(0)?));
        }
        Ok(if rest.is_empty() { first } else { Expression::Compare(Box::new(first), rest) })
    }

    fn chain(&mut self, level: usize) -> Parsed {
        let Some(operators) = CHAINS.get(level) else { return self.signed() };
        let tighter = level.saturating_add(1);
        let first = self.chain(tighter)?;
        let mut rest = Vec::new();
        while let Some(operator) = self.takes_one_of(operators) {
            rest.push((operator, self.chain(tighter)?));
        }
        Ok(if rest.is_empty() { first } else { Expression::Chain(Box::new(first), rest) })
    }

    fn signed(&mut self) -> Parsed {
        match self.takes_one_of(&SIGNS) {
            Some(sign) => Ok(Expression::Unary(sign, Box::new(self.deeper(Self::signed)?))),
            None => self.power(),
        }
    }

    fn power(&mut self) -> Parsed {
        let base = self.atom()?;
        if !self.takes_sign("**") {
            return Ok(base);
        }
        let exponent = self.deeper(Self::signed)?;
        Ok(Expression::Chain(Box::new(base), vec![(Binary::Power, exponent)]))
    }

    fn atom(&mut self) -> Parsed {
        match self.peek().clone() {
            Kind::Number(value) => {
                self.step();
                Ok(Expression::Number(value))
            }
            Kind::Word(word) if !matches!(word.as_str(), "and" | "or" | "not" | "if" | "else") => {
                self.step();
                if self.takes_sign("(") {
                    Ok(Expression::Call(word, self.items(")")?))
                } else {
                    Ok(Expression::Name(word))
                }
            }
            Kind::Sign("(") => {
                self.step();
                let inner = self.deeper(Self::expression)?;
                self.must_take(")")?;
                Ok(inner)
            }
            Kind::Sign("[") => {
                self.step();
                Ok(Expression::List(self.items("]")?))
            }
            _ => Err(self.unexpected()),
        }
    }

    /// What stands between brackets, up to the closing one.
    fn items(&mut self, close: &str) -> Result<Vec<Expression>, Error> {
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

fn single(mut all: Vec<Expression>, several: fn(Vec<Expression>) -> Expression) -> Expression {
    if all.len() > 1 {
        return several(all);
    }
    match all.pop() {
        Some(one) => one,
        None => several(all),
    }
}
