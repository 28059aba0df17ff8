//! Reads arbitrary bodies, cut into arbitrary pieces, as an answer in the OpenAI-style dialect. Checks: no
//! panic, every limit holds, and the cuts do not change the result.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nanoclaw::llm::fuzzing::openai(data));
