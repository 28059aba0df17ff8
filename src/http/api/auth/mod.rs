//! `/api/auth`: log in, register, and the own account.

pub(crate) mod profile;
pub(crate) mod register;
pub(crate) mod session;
pub(crate) mod token;

use crate::http::error::ApiError;

/// What a server without accounts answers.
pub(crate) const NO_ACCOUNTS: ApiError =
    ApiError::Forbidden("there are no accounts: the server runs with auth_mode: single");

/// The largest body, bytes, and the most values in it: anybody may send one.
const BODY_BOUNDS: (usize, usize) = (16 * 1024, 64);

/// Username and password, or an error that names what is missing.
fn credentials<U, P>(username: Option<U>, password: Option<P>) -> Result<(U, P), ApiError> {
    match (username, password) {
        (Some(username), Some(password)) => Ok((username, password)),
        (None, Some(_)) => Err(ApiError::value("username", "'username' is missing")),
        (Some(_), None) => Err(ApiError::value("password", "'password' is missing")),
        (None, None) => Err(ApiError::value("username", "'username' and 'password' are missing")),
    }
}
