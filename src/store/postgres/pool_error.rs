//! Why no connection to the database can be made.

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The URL is no URL of `PostgreSQL`.
    #[error("store.url is not a URL of PostgreSQL: {0}")]
    Url(String),
    /// A parameter of the URL has a wrong value.
    #[error("store.url: {0}")]
    Parameter(String),
    /// TLS cannot be set up.
    #[error("cannot set up TLS for the database: {0}")]
    Tls(String),
    /// The threads cannot be started.
    #[error("cannot start the threads of the store: {0}")]
    Threads(std::io::Error),
}

/// An error with its causes: the driver says the reason in the innermost.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
