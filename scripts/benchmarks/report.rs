//! Writes the sheet as a table for the terminal and as BENCHMARKS.md.

use crate::list::{FIGURES, find};
use crate::sheet::{COLUMNS, Sheet};

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

/// Facts about the machine of a run.
pub(crate) type Facts = Vec<(&'static str, String)>;

/// The table in columns, for a terminal.
pub(crate) fn terminal(sheet: &Sheet) -> String {
    let rows = sheet.rows();
    let heads = COLUMNS.map(str::to_owned);
    let widths: [usize; 5] = std::array::from_fn(|column| {
        let cells = rows.iter().chain([&heads]).map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    });
    let mut text = String::new();
    for row in [&heads].into_iter().chain(&rows) {
        let [name, measured, goal, met, ratio] = row;
        let [wide, value, aim, word, times] = widths;
        let line = format!("{name:<wide$}  {measured:>value$}  {goal:<aim$}  {met:<word$}  {ratio:>times$}");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// BENCHMARKS.md.
pub(crate) fn markdown(sheet: &Sheet, facts: &Facts) -> String {
    let mut text = String::from(INTRODUCTION);
    let missed = sheet.missed();
    if !missed.is_empty() {
        text.extend(["\nThis run missed these goals:\n\n- ", &missed.join("\n- "), "\n"]);
    }
    for (heading, groups) in SECTIONS {
        let rows = sheet.rows_of(groups);
        if !rows.is_empty() {
            text.extend(["\n## ", heading, "\n\n"]);
            table(&mut text, &COLUMNS.map(str::to_owned), &rows);
        }
    }
    text.push_str("\n## Machine\n\n");
    let pair = |name: &str, value: &str| [name.to_owned(), value.to_owned()];
    let rows: Vec<[String; 2]> = facts.iter().map(|(name, value)| pair(name, value)).collect();
    table(&mut text, &pair("", "this run"), &rows);
    let versions = sheet.versions();
    if !versions.is_empty() {
        text.push_str("\n## Peers\n\n");
        let rows: Vec<[String; 2]> = versions.iter().map(|(name, value)| pair(name, value)).collect();
        table(&mut text, &pair("peer", "version"), &rows);
    }
    text.push_str("\n## Method\n\n");
    let rows: Vec<[String; 2]> = FIGURES
        .iter()
        .filter(|figure| sheet.value(figure.key).is_some())
        .map(|figure| match figure.beside.and_then(find) {
            Some(ours) => pair(&format!("{}; peer: {}", ours.name, figure.name), figure.method),
            None => pair(figure.name, figure.method),
        })
        .collect();
    table(&mut text, &pair("figure", "method"), &rows);
    skipped(&mut text, sheet);
    text
}

fn skipped(text: &mut String, sheet: &Sheet) {
    let skipped = sheet.skipped();
    if skipped.is_empty() && sheet.has_peers() {
        return;
    }
    text.push_str("\n## Skipped\n\n");
    if !sheet.has_peers() {
        text.push_str("- all peers but the bare program: the run had no `--peers`\n");
    }
    for (name, why) in skipped {
        text.extend(["- ", &name, ":\n  ", why, "\n"]);
    }
}

fn table<const N: usize>(text: &mut String, heads: &[String; N], rows: &[[String; N]]) {
    let line = |cells: &[String; N]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    text.push_str(&line(heads));
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
    fn both_tables_say_the_same() {
        let mut sheet = Sheet::default();
        sheet.put("sandbox.python", 2.0);
        sheet.put("sandbox.python.bwrap", 10.0);
        sheet.skip("sandbox.javascript", "no | kernel");
        sheet.met("node", "v20");
        let page = markdown(&sheet, &vec![("cores", "2".into())]);
        let shown = terminal(&sheet);
        for text in [&page, &shown] {
            assert!(text.contains("sandboxed Python, p50") && text.contains("5 ×"), "{text}");
        }
        assert!(page.contains("| cores | 2 |") && page.contains("| node | v20 |"), "{page}");
        assert!(page.contains("- sandboxed JavaScript, p50: no | kernel"), "{page}");
    }
}
