//! `/api/auth`: logging in, registering, one's own account.

pub(in crate::http::api) mod form;
pub(crate) mod login;
pub(crate) mod logout;
pub(crate) mod mode;
pub(crate) mod opened;
pub(crate) mod profile;
pub(crate) mod register;
pub(crate) mod ticket;
