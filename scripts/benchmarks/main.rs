//! Measures all figures in one run, compares them with a bare program and, with `--peers`, with other
//! products, and writes BENCHMARKS.md. Ratios never mix two runs.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    reason = "a benchmark that cannot measure stops, prints what it found, and rounds"
)]

#[path = "../../tests/support/upstream.rs"]
#[allow(dead_code, reason = "the benchmark takes the answers, and has a faster provider to say them")]
mod upstream;

mod bare;
mod enqueue;
mod first;
mod list;
mod machine;
mod peers;
mod processes;
mod provider;
mod report;
mod restart;
mod sandbox;
mod server;
mod sheet;
mod start;
mod streams;
mod turns;
mod wire;

use serde_json::json;
use sheet::Sheet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Duration of each throughput figure.
const SPAN: Duration = Duration::from_secs(4);

/// The results and the options of a run.
pub(crate) struct Run {
    pub(crate) sheet: Sheet,
    pub(crate) with_peers: bool,
    pub(crate) is_long: bool,
}

type Measure = fn(&mut Run);

/// All groups of figures by name. The disk comes first, because goals use it.
const GROUPS: [(&str, Measure); 10] = [
    ("disk", start::disk),
    ("size", start::size),
    ("start", start::measure),
    ("enqueue", enqueue::measure),
    ("turns", turns::measure),
    ("first", first::measure),
    ("streams", streams::measure),
    ("sandbox", sandbox::measure),
    ("tools", turns::tool_calls),
    ("restart", restart::measure),
];

const USAGE: &str = "\
scripts/bench [--peers] [--long] [--strict] [--json FILE] [--out FILE] [GROUP…]
  --peers      also measure BullMQ, nanobot, LiteLLM, bubblewrap and node, installed under target/peers
  --long       also fill the bare program's store with 1 GB
  --strict     exit with 1 if a goal is missed
  --json FILE  raw results
  --out FILE   the page; without GROUP the default is BENCHMARKS.md
  GROUP        disk size start enqueue turns first streams sandbox tools restart; default: all";

/// The command line.
#[derive(Default)]
struct Asked {
    flags: Vec<String>,
    groups: Vec<String>,
    json: Option<String>,
    out: Option<String>,
}

impl Asked {
    fn read() -> Result<Self, String> {
        let mut asked = Self::default();
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--json" => asked.json = Some(words.next().ok_or("--json wants a file")?),
                "--out" => asked.out = Some(words.next().ok_or("--out wants a file")?),
                "--peers" | "--long" | "--strict" => asked.flags.push(word),
                name if GROUPS.iter().any(|(group, _)| *group == name) => asked.groups.push(word),
                _ => return Err(format!("'{word}' is neither an option nor a group")),
            }
        }
        Ok(asked)
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|given| given == flag)
    }

    fn wants(&self, group: &str) -> bool {
        self.groups.is_empty() || group == "disk" || self.groups.iter().any(|name| name == group)
    }

    /// Where the page goes. Only a complete run replaces BENCHMARKS.md.
    fn page(&self) -> Option<String> {
        let whole = self.groups.is_empty().then(|| format!("{}/BENCHMARKS.md", server::ROOT));
        self.out.clone().or(whole)
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    if let [_, flag, file] = &words[..]
        && flag == bare::FLAG
    {
        bare::serve(file.as_ref());
        return ExitCode::SUCCESS;
    }
    match Asked::read() {
        Ok(asked) => measure(&asked),
        Err(wrong) => {
            eprintln!("{wrong}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn measure(asked: &Asked) -> ExitCode {
    let machine = machine::describe();
    let mut run =
        Run { sheet: Sheet::default(), with_peers: asked.has("--peers"), is_long: asked.has("--long") };
    let began = Instant::now();
    let mut is_whole = true;
    for (group, measure) in GROUPS.iter().filter(|(group, _)| asked.wants(group)) {
        eprintln!("{group} ({:.0} s)", began.elapsed().as_secs_f64());
        // A group that cannot be measured panics with the reason; the other groups still run.
        let outcome = catch_unwind(AssertUnwindSafe(|| measure(&mut run)));
        is_whole &= !run.sheet.close(group, run.with_peers) && outcome.is_ok();
    }
    eprintln!("done ({:.0} s)\n", began.elapsed().as_secs_f64());
    print!("{}", report::terminal(&run.sheet));
    if let Some(file) = asked.page() {
        std::fs::write(&file, report::markdown(&run.sheet, &machine)).expect("write the page");
    }
    if let Some(file) = &asked.json {
        let raw = json!({
            "machine": machine::json(&machine),
            "peers": run.sheet.versions().iter().map(|(name, version)| json!({"name": name, "version": version})).collect::<Vec<_>>(),
            "figures": run.sheet.json(),
        });
        std::fs::write(file, format!("{raw:#}\n")).expect("write the results");
    }
    let missed = run.sheet.missed();
    if !missed.is_empty() {
        println!("\nmissed: {}", missed.join("; "));
    }
    ExitCode::from(u8::from(!is_whole || asked.has("--strict") && !missed.is_empty()))
}

/// The median.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
