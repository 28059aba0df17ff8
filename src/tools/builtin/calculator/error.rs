//! Why an expression has no value, in words for the model.

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CalculatorError {
    /// It is not an expression.
    #[error("Syntax error at character {at}: {what}")]
    Syntax {
        /// Counted from 1.
        at: usize,
        /// What is wrong there.
        what: String,
    },
    /// It has no value, in Python's words where Python has some.
    #[error("Calculation error: {0}")]
    Math(String),
    /// A name that means nothing here.
    #[error("Calculation error: unknown name '{0}'")]
    Name(String),
    /// A function given what it does not take.
    #[error("Calculation error: {function}() takes {takes}")]
    Arguments {
        /// The function.
        function: String,
        /// What it takes.
        takes: &'static str,
    },
    /// More characters than are read.
    #[error("Calculation error: the expression is longer than {0} characters")]
    TooLong(usize),
    /// More brackets than are read.
    #[error("Calculation error: the expression is nested deeper than {0} levels")]
    TooDeep(usize),
    /// A number that would be too big.
    #[error("Calculation error: the result is too large (more than {0} digits)")]
    TooManyDigits(u64),
    /// The job ended meanwhile.
    #[error("Calculation error: stopped")]
    Stopped,
}

impl CalculatorError {
    /// In Python's words.
    pub(super) fn math(text: impl Into<String>) -> Self {
        Self::Math(text.into())
    }
}
