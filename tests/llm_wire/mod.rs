//! The models' wire against real sockets: providers that answer, hang, drip, refuse, and calls that are cut
//! short.

mod anthropic;
mod openai;
mod provider_quirks;
