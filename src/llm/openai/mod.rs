//! Chat completions as `OpenAI` defined them and many providers offer them.

mod answer;
mod calls;
mod chunk;
mod dialect;
mod forward;
mod naming;
mod quirks;
mod replay_data;
mod request;
mod settings;
#[cfg(test)]
mod tests;
mod unsupported;

pub(super) use dialect::OpenAiDialect;
#[cfg(feature = "fuzzing")]
pub(super) use dialect::read_body;
pub(super) use forward::{ForwardedAnswer, as_model_request};
