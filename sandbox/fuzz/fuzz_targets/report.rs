//! Reads arbitrary frames, reports, output and exit statuses. Checks: no panic, and only the parent
//! decides the status of a run.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nanoclaw_sandbox::fuzzing::report(data));
