//! Writes the results as a table for the terminal and as BENCHMARKS.md.

use crate::figures::{FIGURES, find};
use crate::results::{COLUMNS, Results};

/// The tables of BENCHMARKS.md: heading and groups of figures.
const SECTIONS: &[(&str, &[&str])] = &[
    ("Size, start and memory", &["size", "start"]),
    ("Jobs", &["enqueue", "turns", "first", "disk"]),
    ("Event streams", &["streams"]),
    ("Sandbox", &["sandbox", "tools"]),
    ("A store with 100,000 queued jobs", &["restart"]),
];

const INTRODUCTION: &str = "\
# Benchmarks

`scripts/bench --peers` measures these figures in one run and writes this file. Do not edit it.

- All programs ran on one machine, one after the other. Clients and scripted providers used the same cores.
- \"Better by\" compares NanoClaw with a peer in the same run. Above 1 ×, NanoClaw is better; below 1 ×, the
  peer is. This holds for rates, times and sizes alike.
- Goals are our own targets for a machine with two cores. p50 is the median, p99 the 99th percentile.
- A peer does not always do the same work. [Method](#method) says how each figure is measured.
";

/// The table in columns, for a terminal.
pub(crate) fn terminal(results: &Results) -> String {
    let rows = results.rows();
    let headings = COLUMNS.map(str::to_owned);
    let widths: [usize; 5] = std::array::from_fn(|column| {
        let cells = rows.iter().chain([&headings]).map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    });
    let mut text = String::new();
    for row in [&headings].into_iter().chain(&rows) {
        let [name, measured, goal, met, ratio] = row;
        let [w0, w1, w2, w3, w4] = widths;
        let line = format!("{name:<w0$}  {measured:>w1$}  {goal:<w2$}  {met:<w3$}  {ratio:>w4$}");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// BENCHMARKS.md.
pub(crate) fn markdown(results: &Results, machine: &[(&str, String)]) -> String {
    let mut text = String::from(INTRODUCTION);
    let missed = results.missed_goals();
    if !missed.is_empty() {
        text.extend(["\nThis run missed these goals:\n\n- ", &missed.join("\n- "), "\n"]);
    }
    for (heading, groups) in SECTIONS {
        let rows = results.rows_of(groups);
        if !rows.is_empty() {
            text.extend(["\n## ", heading, "\n\n"]);
            append_table(&mut text, &COLUMNS.map(str::to_owned), &rows);
        }
    }
    text.push_str("\n## Machine\n\n");
    let pair = |name: &str, value: &str| [name.to_owned(), value.to_owned()];
    let rows: Vec<[String; 2]> = machine.iter().map(|(name, value)| pair(name, value)).collect();
    append_table(&mut text, &pair("", "this run"), &rows);
    let versions = results.peer_versions();
    if !versions.is_empty() {
        text.push_str("\n## Peers\n\n");
        let rows: Vec<[String; 2]> = versions.iter().map(|(name, value)| pair(name, value)).collect();
        append_table(&mut text, &pair("peer", "version"), &rows);
    }
    text.push_str("\n## Method\n\n");
    let rows: Vec<[String; 2]> = FIGURES
        .iter()
        .filter(|figure| results.value(figure.key).is_some())
        .map(|figure| match figure.peer_of.and_then(find) {
            Some(ours) => pair(&format!("{}; peer: {}", ours.name, figure.name), figure.method),
            None => pair(figure.name, figure.method),
        })
        .collect();
    append_table(&mut text, &pair("figure", "method"), &rows);
    append_skipped(&mut text, results);
    text
}

fn append_skipped(text: &mut String, results: &Results) {
    let skipped = results.skipped();
    if skipped.is_empty() && results.has_peers() {
        return;
    }
    text.push_str("\n## Skipped\n\n");
    if !results.has_peers() {
        text.push_str("- all peers but the bare program: the run had no `--peers`\n");
    }
    for (name, reason) in skipped {
        text.extend(["- ", &name, ":\n  ", reason, "\n"]);
    }
}

fn append_table<const N: usize>(text: &mut String, headings: &[String; N], rows: &[[String; N]]) {
    let line = |cells: &[String; N]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    text.push_str(&line(headings));
    text.extend(["|", &" --- |".repeat(N), "\n"]);
    for row in rows {
        text.push_str(&line(row));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_has_a_table() {
        let with_table = |group: &str| SECTIONS.iter().any(|(_, groups)| groups.contains(&group));
        assert!(FIGURES.iter().all(|figure| with_table(figure.group())));
    }

    #[test]
    fn page_and_terminal_show_the_same_values() {
        let mut results = Results::default();
        results.record("sandbox.python", 2.0);
        results.record("sandbox.python.bwrap", 10.0);
        results.skip("sandbox.javascript", "no | kernel");
        results.record_version("node", "v20");
        let page = markdown(&results, &[("cores", "2".into())]);
        let screen = terminal(&results);
        for text in [&page, &screen] {
            assert!(text.contains("sandboxed Python, p50") && text.contains("5 ×"), "{text}");
        }
        assert!(page.contains("| cores | 2 |") && page.contains("| node | v20 |"), "{page}");
        assert!(page.contains("- sandboxed JavaScript, p50:\n  no | kernel"), "{page}");
    }
}
