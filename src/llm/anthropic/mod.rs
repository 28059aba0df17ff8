//! Messages as Anthropic defined them and some other providers offer them.

mod answer;
#[cfg(test)]
mod answer_tests;
mod block;
mod dialect;
mod error;
mod event;
#[cfg(test)]
mod replay;
mod request;
#[cfg(test)]
mod request_tests;
mod turns;

pub(super) use dialect::AnthropicDialect;
#[cfg(feature = "fuzzing")]
pub(super) use dialect::read_body;
