//! The table on the terminal, and BENCHMARKS.md: both are the sheet's rows. Decides nothing.

use crate::list::{FIGURES, find};
use crate::sheet::{COLUMNS, Sheet};

/// What the run was taken on.
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
    let mut text = String::from(
        "# Benchmarks\n\n\
         Written by `scripts/bench` in one run; do not edit. Everything ran on one machine, one thing after the other, \
         clients and scripted providers on the same cores. Ratios are taken within the run: more than 1 × is in \
         NanoClaw's favour, whether the figure is a rate, a time or a size. Goals are those of DESIGN §10.\n\n",
    );
    table(&mut text, &COLUMNS.map(str::to_owned), &sheet.rows());
    let missed = sheet.missed();
    if !missed.is_empty() {
        text.extend(["\nGoals missed in this run: ", &missed.join("; "), ".\n"]);
    }
    text.push_str("\n## Machine\n\n");
    let pair = |name: &str, value: &str| [name.to_owned(), value.to_owned()];
    let rows: Vec<[String; 2]> = facts.iter().map(|(name, value)| pair(name, value)).collect();
    table(&mut text, &pair("what", "this run"), &rows);
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
            Some(ours) => pair(&format!("{} — beside it: {}", ours.name, figure.name), figure.method),
            None => pair(figure.name, figure.method),
        })
        .collect();
    table(&mut text, &pair("figure", "how it is taken"), &rows);
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
        text.push_str("- all peers but the bare program: not asked for (`--peers`)\n");
    }
    for (name, why) in skipped {
        text.extend(["- ", &name, ": ", why, "\n"]);
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
