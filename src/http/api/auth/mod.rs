//! `/api/auth`: logging in, registering, one's own account.

pub(crate) mod mode;
