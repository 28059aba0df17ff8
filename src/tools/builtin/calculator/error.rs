//! The errors of expressions, for the model.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CalculatorError {
    #[error("Syntax error at character {at}: {what}")]
    Syntax {
        /// Counted from 1.
        at: usize,
        what: String,
    },
    /// The text of Python's error, if Python has one.
    #[error("Calculation error: {0}")]
    Math(String),
    #[error("Calculation error: unknown name '{0}'")]
    Name(String),
    /// Wrong arguments of a function.
    #[error("Calculation error: {function}() takes {takes}")]
    Arguments {
        /// The function.
        function: String,
        /// The expected arguments.
        takes: &'static str,
    },
    #[error("Calculation error: the expression is longer than {0} characters")]
    TooLong(usize),
    #[error("Calculation error: the expression is nested deeper than {0} levels")]
    TooDeep(usize),
    #[error("Calculation error: the result is too large (more than {0} digits)")]
    TooManyDigits(u64),
    /// The job was cancelled.
    #[error("Calculation error: stopped")]
    Stopped,
}

impl CalculatorError {
    pub(super) fn math(text: impl Into<String>) -> Self {
        Self::Math(text.into())
    }
}
