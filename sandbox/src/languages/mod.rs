//! The languages of guests: what each needs of the host, and how its programs start.

pub(crate) mod javascript;
pub(crate) mod python;
pub(crate) mod shell;
