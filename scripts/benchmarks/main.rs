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
#[allow(dead_code, reason = "the benchmarks use the answers and send them with a faster provider")]
mod upstream;

mod bare_program;
mod batch;
mod compare;
mod connection;
mod enqueue;
mod figures;
mod first_token;
mod latency;
mod load;
mod machine;
mod peers;
mod process;
mod provider;
mod report;
mod restart;
mod results;
mod run;
mod sandbox;
mod server;
mod start;
mod streams;
mod turns;
mod unit;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use results::Results;
use run::Run;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Duration of each throughput figure.
const SPAN: Duration = Duration::from_secs(4);

/// The results and the options of a run.
pub(crate) struct Benchmark {
    pub(crate) results: Results,
    pub(crate) with_peers: bool,
    pub(crate) is_long: bool,
}

type MeasureGroup = fn(&mut Benchmark);

/// All groups of figures by name. The disk comes first, because goals use it.
const GROUPS: [(&str, MeasureGroup); 12] = [
    ("disk", start::measure_disk),
    ("size", start::measure_size),
    ("start", start::measure),
    ("latency", latency::measure),
    ("first", first_token::measure),
    ("enqueue", enqueue::measure),
    ("batch", batch::measure),
    ("turns", turns::measure),
    ("streams", streams::measure),
    ("sandbox", sandbox::measure),
    ("tools", turns::measure_tool_calls),
    ("restart", restart::measure),
];

/// Measures the project's figures on this machine.
#[derive(Parser)]
#[command(bin_name = "scripts/bench")]
struct Arguments {
    /// Also measure the peers, which are installed under target/peers
    #[arg(long)]
    peers: bool,
    /// Also fill the bare program's store with 1 GB
    #[arg(long)]
    long: bool,
    /// Exit with 1 if a goal is missed
    #[arg(long)]
    strict: bool,
    /// Compare with the results of an earlier run, and exit with 1 if a figure is more than 15 % worse
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Show the results of an earlier run in a column "before"
    #[arg(long, value_name = "FILE")]
    before: Option<PathBuf>,
    /// Measure nothing: write the page of an earlier run
    #[arg(long, value_name = "FILE", conflicts_with = "groups")]
    render: Option<PathBuf>,
    /// Write the raw results
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the page; without GROUP the default is BENCHMARKS.md
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The groups of figures to measure; default: all
    #[arg(value_name = "GROUP", value_parser = PossibleValuesParser::new(GROUPS.map(|(group, _)| group)))]
    groups: Vec<String>,
    /// Serve as the bare program from this store
    #[arg(long, value_name = "FILE", hide = true)]
    bare_program: Option<PathBuf>,
}

impl Arguments {
    fn has_group(&self, group: &str) -> bool {
        self.groups.is_empty() || group == "disk" || self.groups.iter().any(|name| name == group)
    }

    /// The file for the page. Only a complete run replaces BENCHMARKS.md.
    fn page(&self) -> Option<PathBuf> {
        let is_complete = self.groups.is_empty();
        self.out.clone().or(is_complete.then(|| [server::ROOT, "BENCHMARKS.md"].iter().collect()))
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(store) = &arguments.bare_program {
        bare_program::serve(store);
    }
    start(&arguments).unwrap_or_else(|reason| {
        eprintln!("error: {reason}");
        ExitCode::from(2)
    })
}

/// Reads the earlier runs first: a wrong file must not cost the time of a measurement.
fn start(arguments: &Arguments) -> Result<ExitCode, String> {
    let earlier = |file: &Option<PathBuf>| file.as_deref().map(Run::read).transpose();
    let (before, compared) = (earlier(&arguments.before)?, earlier(&arguments.compare)?);
    let (run, is_complete) = match &arguments.render {
        Some(file) => (Run::read(file)?, true),
        None => measure(arguments),
    };
    print!("{}", report::terminal(&run, before.as_ref()));
    if let Some(file) = arguments.page() {
        std::fs::write(file, report::markdown(&run, before.as_ref())).expect("write the page");
    }
    if let Some(file) = &arguments.json {
        std::fs::write(file, format!("{:#}\n", run.json())).expect("write the results");
    }
    let missed: Vec<&str> = run.results.missed_goals().into_iter().map(|figure| figure.name).collect();
    if !missed.is_empty() {
        println!("\nmissed: {}", missed.join("; "));
    }
    let is_worse = compared.is_some_and(|earlier| is_worse(&run.results, &earlier.results));
    Ok(ExitCode::from(u8::from(!is_complete || is_worse || arguments.strict && !missed.is_empty())))
}

/// The run, and whether all figures were measured.
fn measure(arguments: &Arguments) -> (Run, bool) {
    let machine = machine::describe();
    let mut run =
        Benchmark { results: Results::default(), with_peers: arguments.peers, is_long: arguments.long };
    let began = Instant::now();
    let mut is_complete = true;
    for (group, measure) in GROUPS.iter().filter(|(group, _)| arguments.has_group(group)) {
        eprintln!("{group} ({:.0} s)", began.elapsed().as_secs_f64());
        // A group that cannot be measured panics with the reason; the other groups still run.
        let outcome = catch_unwind(AssertUnwindSafe(|| measure(&mut run)));
        is_complete &= !run.results.skip_missing(group, run.with_peers) && outcome.is_ok();
    }
    eprintln!("done ({:.0} s)\n", began.elapsed().as_secs_f64());
    (Run { machine, results: run.results }, is_complete)
}

/// Prints what is worse than in the earlier run.
fn is_worse(now: &Results, before: &Results) -> bool {
    let losses = compare::losses(now, before);
    match &losses {
        Ok(losses) if losses.is_empty() => println!("\nno figure is more than 15 % worse than before"),
        Ok(losses) => println!("\nworse than before:\n- {}", losses.join("\n- ")),
        Err(reason) => println!("\ncannot compare: {reason}"),
    }
    losses.map_or(true, |losses| !losses.is_empty())
}

/// The time of some work, in milliseconds.
pub(crate) fn timed_ms(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64() * 1e3
}

/// The median.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    percentile(values, 50)
}

/// The value that this many percent of the values are smaller than.
pub(crate) fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() * percent / 100).copied().unwrap_or(f64::NAN)
}
