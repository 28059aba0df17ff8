//! Arbitrary bodies in arbitrary slices, read as an answer of Anthropic's dialect: no panic, every bound holds, and slices
//! mean nothing.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nanoclaw::llm::fuzzing::anthropic(data));
