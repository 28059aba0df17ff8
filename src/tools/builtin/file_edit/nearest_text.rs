//! Suggests the text that is most similar to a missing text. A suggestion is never edited.

/// The lines that are compared.
const MAX_LINES: usize = 20_000;
/// Characters of a line that are compared.
const LINE_CHARS: usize = 200;
/// Lines of the wanted text that are compared.
const WANTED_LINES: usize = 20;
/// The least similarity of a suggestion, 0 to 1.
const MIN_SIMILARITY: f64 = 0.4;

/// The text that is most similar to the wanted one.
#[derive(Debug, PartialEq)]
pub(super) struct NearestText {
    /// Its first line, counted from 1.
    pub(super) start_line: u64,
    /// Its lines.
    pub(super) text: String,
    /// Its similarity, percent.
    pub(super) percent: u64,
    /// The only difference, if there is one.
    pub(super) only_difference: Option<&'static str>,
}

/// The lines of a text that are most similar to the wanted one, if they are similar enough.
pub(super) fn nearest(text: &str, wanted: &str) -> Option<NearestText> {
    let shortened = |line: &str| line.chars().take(LINE_CHARS).collect::<String>();
    let lines: Vec<&str> = text.split('\n').take(MAX_LINES).collect();
    let wanted: Vec<&str> = wanted.split('\n').map(|line| line.trim_end_matches('\r')).collect();
    let compared: Vec<String> = wanted.iter().take(WANTED_LINES).map(|line| shortened(line)).collect();
    // The longest line identifies the position best.
    let (at, anchor) = compared.iter().enumerate().max_by_key(|(_, line)| line.trim().len())?;
    let anchor = normalized(anchor);
    let scored =
        lines.iter().enumerate().map(|(n, line)| (similarity(&normalized(&shortened(line)), &anchor), n));
    let (_, best) = scored.max_by(|(a, n), (b, m)| a.total_cmp(b).then(m.cmp(n)))?;
    let start = best.saturating_sub(at);
    let window: Vec<&str> = lines.iter().skip(start).take(wanted.len()).copied().collect();
    let total: f64 = window
        .iter()
        .zip(&compared)
        .map(|(line, other)| similarity(&normalized(&shortened(line)), &normalized(other)))
        .sum();
    let average = total / f64::from(u32::try_from(compared.len()).unwrap_or(u32::MAX));
    if average < MIN_SIMILARITY {
        return None;
    }
    Some(NearestText {
        start_line: start as u64 + 1,
        text: window.iter().take(WANTED_LINES).map(|line| shortened(line)).collect::<Vec<_>>().join("\n"),
        percent: percent(average),
        only_difference: only_difference(&window.join("\n"), &wanted.join("\n")),
    })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from 0 to 1")]
fn percent(similarity: f64) -> u64 {
    (similarity.clamp(0.0, 1.0) * 100.0).floor() as u64
}

fn similarity(a: &str, b: &str) -> f64 {
    match (a.len(), b.len()) {
        (0, 0) => 1.0,
        // Lengths that differ too much are not compared.
        (a_len, b_len) if a_len > 4 * b_len || b_len > 4 * a_len => 0.0,
        _ => strsim::sorensen_dice(a, b),
    }
}

/// The only difference of the texts.
fn only_difference(found: &str, wanted: &str) -> Option<&'static str> {
    if contains(&without_whitespace(found), &without_whitespace(wanted)) {
        return Some("white space (indentation, tabs or spaces, spaces at line ends)");
    }
    if contains(&ascii_punctuation(found), &ascii_punctuation(wanted)) {
        return Some("quotes or dashes (straight ones and typographic ones)");
    }
    contains(&normalized(found), &normalized(wanted))
        .then_some("white space, quotes, or upper and lower case")
}

fn contains(found: &str, wanted: &str) -> bool {
    !wanted.is_empty() && found.contains(wanted)
}

/// The text without small differences.
fn normalized(text: &str) -> String {
    without_whitespace(&ascii_punctuation(text)).to_lowercase()
}

fn without_whitespace(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

fn ascii_punctuation(text: &str) -> String {
    let ascii = |c| match c {
        '\u{2018}' | '\u{2019}' | '\u{201b}' | '\u{2032}' => '\'',
        '\u{201c}' | '\u{201d}' | '\u{201f}' | '\u{2033}' => '"',
        '\u{2010}'..='\u{2015}' => '-',
        '\u{a0}' => ' ',
        other => other,
    };
    text.chars().map(ascii).collect()
}
