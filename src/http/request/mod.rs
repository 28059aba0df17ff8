//! What comes in: head, body, query, and the JSON in it.

pub(crate) mod body;
pub(crate) mod conditions;
pub(crate) mod context;
pub(crate) mod form;
pub(crate) mod image;
pub(crate) mod json;
pub(crate) mod member;
pub(crate) mod peer;
pub(crate) mod percent;
pub(crate) mod project;
pub(crate) mod query;
pub(crate) mod quoted;
pub(crate) mod tokens;
pub(crate) mod trace;
pub(crate) mod typed;
pub(crate) mod values;
