//! Model calls over real sockets: providers that answer, hang, stall or refuse, and calls that are
//! cancelled.

mod anthropic;
mod openai;
mod provider_quirks;
