//! Reads a report pipe in arbitrary pieces. Checks: the stored bytes equal the
//! written bytes, up to the limit.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nanoclaw_sandbox::fuzzing::pieces(data));
