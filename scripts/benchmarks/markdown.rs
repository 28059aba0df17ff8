//! Parts of Markdown pages: tables, short lines, and texts written by hand.

use crate::server::ROOT;
use std::path::PathBuf;

/// Texts written by hand, in `KEY.md`: for a missed goal its measured floor and the reason, for a curve why
/// it bends.
const NOTES: &str = "scripts/benchmarks/notes";
/// Characters of a line.
const MAX_CHARACTERS: usize = 110;

/// The text written by hand, if there is one. It stays when the page is written again.
pub(crate) fn note(key: &str) -> Option<String> {
    std::fs::read_to_string([ROOT, NOTES, &format!("{key}.md")].iter().collect::<PathBuf>()).ok()
}

/// The words in lines of at most 110 characters. All lines but the first begin with the indent.
pub(crate) fn wrapped(text: &str, indent: &str) -> String {
    let (mut out, mut length) = (String::new(), 0);
    for word in text.split_whitespace() {
        let characters = word.chars().count();
        if length > 0 && length + 1 + characters > MAX_CHARACTERS - indent.len() {
            out.extend(["\n", indent]);
            length = 0;
        } else if length > 0 {
            out.push(' ');
            length += 1;
        }
        out.push_str(word);
        length += characters;
    }
    out
}

/// The rows of a table with headings.
pub(crate) fn with_headings(headings: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Vec<Vec<String>> {
    let headings = headings.iter().map(|heading| (*heading).to_owned()).collect();
    std::iter::once(headings).chain(rows).collect()
}

/// Appends a table whose first row has the headings.
pub(crate) fn append_table(text: &mut String, rows: &[Vec<String>]) {
    for (at, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        text.extend(["| ", &cells.join(" | "), " |\n"]);
        if at == 0 {
            text.extend(["|", &" --- |".repeat(row.len()), "\n"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_broken_between_words() {
        let text = wrapped(&"word ".repeat(50), "  ");
        assert!(text.lines().count() == 3 && text.lines().all(|line| line.chars().count() <= 110), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("  word")), "{text}");
    }
}
