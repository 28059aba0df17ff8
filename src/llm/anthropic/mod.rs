//! Messages as Anthropic defined them and some other providers offer them.

mod answer;
mod block;
mod dialect;
mod event;
mod request;
#[cfg(test)]
mod tests;
mod turns;

pub(super) use dialect::AnthropicDialect;
#[cfg(feature = "fuzzing")]
pub(super) use dialect::read_body;
