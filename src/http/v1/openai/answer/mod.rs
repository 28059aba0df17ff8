//! The answer of a job as clients of other APIs get it: at its end, or as a stream of pieces. How a piece is
//! written is the API's own ([`pieces::AnswerWriter`]).

pub(crate) mod ending;
pub(crate) mod finished;
pub(crate) mod parts;
pub(crate) mod pieces;
mod sent_calls;
pub(crate) mod stream;
