//! Writes the results as a table for the terminal and as BENCHMARKS.md.

use crate::figures::{self, find};
use crate::markdown::{append_table, note, with_headings};
use crate::results::{COLUMNS, Results};
use crate::run::Run;
use crate::work;

/// The tables of BENCHMARKS.md: heading and groups of figures.
const SECTIONS: &[(&str, &[&str])] = &[
    ("Size, start and memory", &["size", "start"]),
    ("Jobs", &["disk", "latency", "first", "enqueue", "batch", "turns"]),
    ("Event streams", &["streams"]),
    ("Sandbox", &["sandbox", "tools"]),
    ("A store with 100,000 queued jobs", &["restart"]),
    ("Many nodes on PostgreSQL", &["cluster"]),
];

const INTRODUCTION: &str = "\
# Benchmarks

`scripts/bench --peers` measures these figures in one run and writes this file. Do not edit it.

- All programs ran on one machine, one after the other. Clients and scripted providers used the same cores.
  Only the nodes of a cluster and their database ran at the same time.
- \"Better by\" compares NanoClaw with a peer in the same run. Above 1 ×, NanoClaw is better; below 1 ×, the
  peer is. This holds for rates, times and sizes alike.
- Goals are our own targets for a machine with two cores. p50 is the median, p99 the 99th percentile.
- A peer does not always do the same work. [Method](#method) says how each figure is measured.
";

const EXPLANATION_OF_BEFORE: &str = "\
- \"Before\" is an earlier version, measured by the same program. [Machine](#machine) names both commits.
";

/// The columns that a terminal shows at the right.
const NUMBERS: [&str; 3] = ["before", "measured", "better by"];

const WORK: &str = "\
User and system time of all processes of the program under test, from /proc during the span. Clients and
providers are not in it. BullMQ is a library: its row has the client's node process and Redis. The rows of
the sandbox have the measuring process, too.
";

/// The table in columns, for a terminal.
pub(crate) fn terminal(run: &Run, before: Option<&Run>) -> String {
    let rows = table(run.results.rows(before.map(|run| &run.results)), before);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let columns: Vec<(usize, bool)> = (0..COLUMNS.len())
        .map_while(|column| Some((width(column)?, NUMBERS.contains(&rows.first()?.get(column)?.as_str()))))
        .collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&columns).map(|(cell, (width, is_number))| {
            if *is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Headings and rows. Without an earlier run there is no column "before".
fn table(rows: Vec<[String; 6]>, before: Option<&Run>) -> Vec<Vec<String>> {
    let headings = COLUMNS.map(str::to_owned);
    let is_shown = |column: usize| before.is_some() || COLUMNS[column] != "before";
    let shown = |row: [String; 6]| -> Vec<String> {
        row.into_iter().enumerate().filter(|(column, _)| is_shown(*column)).map(|(_, cell)| cell).collect()
    };
    [headings].into_iter().chain(rows).map(shown).collect()
}

/// BENCHMARKS.md with this section of curves.
pub(crate) fn markdown(run: &Run, before: Option<&Run>, growth: &str) -> String {
    let results = &run.results;
    let mut text = String::from(INTRODUCTION);
    if before.is_some() {
        text.push_str(EXPLANATION_OF_BEFORE);
    }
    append_missed(&mut text, results);
    for (heading, groups) in SECTIONS {
        let rows = results.rows_of(groups, before.map(|run| &run.results));
        if !rows.is_empty() {
            text.extend(["\n## ", heading, "\n\n"]);
            append_table(&mut text, &table(rows, before));
        }
    }
    append_work(&mut text, results);
    text.push_str(growth);
    append_machine(&mut text, run, before);
    let versions = results.peer_versions();
    if !versions.is_empty() {
        text.push_str("\n## Peers\n\n");
        let versions = versions.iter().map(|(name, version)| vec![name.clone(), version.clone()]);
        append_table(&mut text, &with_headings(&["peer", "version"], versions));
    }
    text.push_str("\n## Method\n\n");
    let measured = figures::all().filter(|figure| results.value(figure.key).is_some());
    let methods = measured.map(|figure| {
        let name = match figure.peer_of.and_then(find) {
            Some(ours) => format!("{}; peer: {}", ours.name, figure.name),
            None => figure.name.to_owned(),
        };
        vec![name, figure.method.to_owned()]
    });
    append_table(&mut text, &with_headings(&["figure", "method"], methods));
    append_skipped(&mut text, results);
    text
}

/// The missed goals, each with its note.
fn append_missed(text: &mut String, results: &Results) {
    let missed = results.missed_goals();
    if !missed.is_empty() {
        text.push_str("\nThis run missed these goals:\n\n");
    }
    for figure in missed {
        text.extend(["- ", figure.name, "\n"]);
        for line in note(figure.key).unwrap_or_default().lines() {
            text.extend(["  ", line, "\n"]);
        }
    }
}

fn append_machine(text: &mut String, run: &Run, before: Option<&Run>) {
    text.push_str("\n## Machine\n\n");
    let earlier = |name: &String| {
        let fact = before?.machine.iter().find(|(other, _)| other == name);
        Some(fact.map_or(String::new(), |(_, text)| text.clone()))
    };
    let rows = run.machine.iter().map(|(name, now)| [Some(name.clone()), earlier(name), Some(now.clone())]);
    let rows = rows.map(|row| row.into_iter().flatten().collect());
    let headings: &[&str] = if before.is_some() { &["", "before", "this run"] } else { &["", "this run"] };
    append_table(text, &with_headings(headings, rows));
}

fn append_work(text: &mut String, results: &Results) {
    let rows = work::rows(results);
    if !rows.is_empty() {
        text.extend(["\n## Work done per core-second\n\n", WORK, "\n"]);
        append_table(text, &with_headings(&work::COLUMNS, rows.into_iter().map(Vec::from)));
    }
}

fn append_skipped(text: &mut String, results: &Results) {
    let skipped = results.skipped();
    if skipped.is_empty() && results.has_peers() {
        return;
    }
    text.push_str("\n## Skipped\n\n");
    if !results.has_peers() {
        text.push_str("- all peers that need `--peers`: the run had no such option\n");
    }
    for (name, reason) in skipped {
        text.extend(["- ", &name, ":\n  ", reason, "\n"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_has_a_table() {
        let with_table = |group: &str| SECTIONS.iter().any(|(_, groups)| groups.contains(&group));
        assert!(figures::all().all(|figure| with_table(figure.group())));
    }

    #[test]
    fn page_and_terminal_show_the_same_values() {
        let mut results = Results::default();
        results.record("sandbox.python", 2.0);
        results.record("sandbox.python.bwrap", 10.0);
        results.skip("sandbox.javascript", "no | kernel");
        results.record_version("node", "v20");
        let run = Run { machine: vec![("cores".into(), "2".into())], results };
        let page = markdown(&run, None, "");
        let screen = terminal(&run, None);
        for text in [&page, &screen] {
            assert!(text.contains("sandboxed Python, p50") && text.contains("5 ×"), "{text}");
        }
        assert!(page.contains("| cores | 2 |") && page.contains("| node | v20 |"), "{page}");
        assert!(page.contains("- sandboxed JavaScript, p50:\n  no | kernel"), "{page}");
    }

    #[test]
    fn the_column_before_shows_the_values_and_the_machine_of_an_earlier_run() {
        let run = |time_ms: f64, commit: &str| {
            let mut results = Results::default();
            results.record("start.ready", time_ms);
            Run { machine: vec![("commit of the binary".into(), commit.into())], results }
        };
        let (before, now) = (run(49.0, "old"), run(19.0, "new"));
        let page = markdown(&now, Some(&before), "");
        assert!(page.contains("| figure | before | measured | goal |"), "{page}");
        assert!(page.contains("p50 of 9 | 49.0 ms | 19.0 ms | ≤ 20 ms | yes |"), "{page}");
        assert!(page.contains("|  | before | this run |\n"), "{page}");
        assert!(page.contains("| commit of the binary | old | new |"), "{page}");
        assert!(!markdown(&now, None, "").contains("before"), "there is no earlier run");
    }
}
