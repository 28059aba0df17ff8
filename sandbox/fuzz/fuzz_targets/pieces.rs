//! A pipe of the report in arbitrary pieces: what is kept is what was written, up to the cap.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nanoclaw_sandbox::fuzzing::pieces(data));
