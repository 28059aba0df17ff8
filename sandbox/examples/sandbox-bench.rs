//! How long a small program takes, run after run: `sandbox-bench [RUNS]` prints p50 and p99 for each engine, for a command,
//! and for a broker's start with its self-test.

use std::time::Instant;

use nanoclaw_sandbox::{Language, Level, Options, Program, Sandbox};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    nanoclaw_sandbox::child_hook();
    let runs: usize = std::env::args().nth(1).map_or(Ok(100), |text| text.parse())?;
    let sandbox = Sandbox::new(Options::default())?;
    let mut lines = vec![format!("optional layers: {}", sandbox.report().layers)];
    let programs = [
        (Language::JavaScript, Level::FOR_CODE.as_slice(), "console.log(6 * 7)"),
        (Language::Python, Level::FOR_CODE.as_slice(), "print(6 * 7)"),
        (Language::Bash, &[Level::Shell], "true"),
    ];
    for (language, levels, code) in programs {
        for level in levels {
            let program = Program::new(language, *level, code);
            sandbox.run(&program, &|| false);
            let times = measure(runs, || drop(sandbox.run(&program, &|| false)));
            lines.push(format!("{language} at {level}: {times}"));
        }
    }
    let starts =
        measure(runs.min(50), || drop(Sandbox::new(Options::default()).map(|fresh| fresh.report().layers)));
    lines.push(format!("a broker, self-test and end: {starts}"));
    std::io::Write::write_all(&mut std::io::stdout(), (lines.join("\n") + "\n").as_bytes())?;
    Ok(())
}

/// Does something so often, and says how long it took each time.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn measure(runs: usize, mut work: impl FnMut()) -> String {
    let mut times: Vec<_> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort();
    let (middle, high) = (times.get(runs / 2), times.get(runs * 99 / 100));
    format!("p50 {middle:.2?}, p99 {high:.2?}")
}
