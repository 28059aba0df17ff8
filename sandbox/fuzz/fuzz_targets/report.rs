//! Reads arbitrary frames, words, output and ends. Checks: no panic, and only the parent decides the status.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nanoclaw_sandbox::fuzzing::report(data));
