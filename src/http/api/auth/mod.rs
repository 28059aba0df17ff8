//! `/api/auth`: log in, register, and the own account.

pub(crate) mod body;
pub(crate) mod profile;
pub(crate) mod register;
pub(crate) mod session;
pub(crate) mod token;
