//! Arbitrary frames, words, output and ends: no panic, and no status but by the parent's own view.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nanoclaw_sandbox::fuzzing::report(data));
