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

mod agent_peers;
mod bare_program;
mod batch;
mod cluster;
mod compare;
mod connection;
mod database;
mod enqueue;
mod figures;
mod first_token;
mod growth;
mod latency;
mod load;
mod machine;
mod markdown;
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
mod work;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use growth::{Growth, GrowthOptions, PointList};
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
const GROUPS: [(&str, MeasureGroup); 13] = [
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
    ("cluster", cluster::measure),
];

/// Measures the project's figures on this machine.
#[derive(Parser)]
#[command(bin_name = "scripts/bench")]
struct Arguments {
    /// Also measure the peers, which are installed under target/peers
    #[arg(long)]
    peers: bool,
    /// Also fill the bare program's store with 1 GB, and measure the longest points of curves
    #[arg(long)]
    long: bool,
    /// Measure other points of a curve
    #[arg(long, value_name = "CURVE=X,…")]
    points: Vec<PointList>,
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
    /// The groups of figures and the curves to measure; default: all groups, without the curves
    #[arg(value_name = "GROUP", value_parser = PossibleValuesParser::new(all_groups()))]
    groups: Vec<String>,
    /// Serve as the bare program from this store
    #[arg(long, value_name = "FILE", hide = true)]
    bare_program: Option<PathBuf>,
}

/// The name of all curves together.
const ALL_CURVES: &str = "growth";

fn all_groups() -> Vec<&'static str> {
    GROUPS.iter().map(|(group, _)| *group).chain(growth::names()).chain([ALL_CURVES]).collect()
}

impl Arguments {
    fn has_group(&self, group: &str) -> bool {
        // Goals use the disk's figure.
        let has_goals = || self.groups.iter().any(|name| GROUPS.iter().any(|(group, _)| group == name));
        self.groups.is_empty() || self.is_named(group) || group == "disk" && has_goals()
    }

    fn has_curve(&self, curve: &str) -> bool {
        self.is_named(curve) || self.is_named(ALL_CURVES)
    }

    fn is_named(&self, group: &str) -> bool {
        self.groups.iter().any(|name| name == group)
    }

    /// The file for the whole page. Only a complete run replaces BENCHMARKS.md.
    fn page(&self) -> Option<PathBuf> {
        let is_complete = self.groups.is_empty();
        self.out.clone().or(is_complete.then(standard_page))
    }
}

fn standard_page() -> PathBuf {
    [server::ROOT, "BENCHMARKS.md"].iter().collect()
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
    let (run, mut is_complete) = match &arguments.render {
        Some(file) => (Run::read(file)?, true),
        None => measure(arguments),
    };
    print!("{}", report::terminal(&run, before.as_ref()));
    let (growth, is_whole) = measure_growth(arguments, &run);
    is_complete &= is_whole;
    let section = growth::section(&growth);
    if let Some(file) = arguments.page() {
        std::fs::write(file, report::markdown(&run, before.as_ref(), &section)).expect("write the page");
    } else if growth::names().any(|curve| arguments.has_curve(curve)) {
        let page = std::fs::read_to_string(standard_page()).expect("the page");
        std::fs::write(standard_page(), growth::replace_section(&page, &section)).expect("write the page");
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
    process::adopt_orphans();
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

/// The curves of this and of earlier runs, and whether all wanted points were measured.
fn measure_growth(arguments: &Arguments, run: &Run) -> (Growth, bool) {
    let page = arguments.out.clone().unwrap_or_else(standard_page);
    let beside = page.parent().unwrap_or(&page);
    let mut growth = Growth::read(beside);
    let options =
        GrowthOptions { is_long: arguments.long, lists: arguments.points.clone(), source: source(run) };
    let mut is_whole = true;
    for curve in growth::names().filter(|curve| arguments.render.is_none() && arguments.has_curve(curve)) {
        eprintln!("growth: {curve}");
        is_whole &= growth.measure(curve, &options);
        growth.write(beside).expect("write the curves");
    }
    (growth, is_whole)
}

/// Date, commit and machine of a run, as one line.
fn source(run: &Run) -> String {
    let fact =
        |name: &str| run.machine.iter().find(|(other, _)| other == name).map(|(_, text)| text.as_str());
    let fact = |name: &str| fact(name).unwrap_or("unknown");
    let (date, commit) = (fact("date"), fact("commit of the binary"));
    format!("{date}, commit {commit}, {}, {} cores", fact("processor"), fact("cores"))
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
