//! Measures runs of a small program: `sandbox-bench [RUNS] [LANGUAGE]` prints p50 and p99 for each engine.

use std::time::Instant;

use nanoclaw_sandbox::{Language, Level, Program, Sandbox, SandboxOptions};

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    nanoclaw_sandbox::child_hook();
    let runs: usize = std::env::args().nth(1).map_or(Ok(100), |text| text.parse())?;
    let only = std::env::args().nth(2);
    let sandbox = Sandbox::new(SandboxOptions::default())?;
    let mut lines = Vec::new();
    for (language, code) in [(Language::JavaScript, "console.log(6 * 7)"), (Language::Python, "print(6 * 7)")]
    {
        if only.as_ref().is_some_and(|only| only != language.name()) {
            continue;
        }
        for level in Level::FOR_CODE {
            let program = Program::new(language, level, code);
            let mut times = Vec::with_capacity(runs);
            sandbox.run(&program, &|| false);
            for _ in 0..runs {
                let start = Instant::now();
                sandbox.run(&program, &|| false);
                times.push(start.elapsed());
            }
            times.sort();
            let (middle, high) = (times.get(runs / 2), times.get(runs * 99 / 100));
            lines.push(format!("{language} at {level}: p50 {middle:.2?}, p99 {high:.2?}"));
        }
    }
    std::io::Write::write_all(&mut std::io::stdout(), (lines.join("\n") + "\n").as_bytes())?;
    Ok(())
}
