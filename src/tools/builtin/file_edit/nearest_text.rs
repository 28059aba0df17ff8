//! The text that a missing text most likely meant. It is only suggested to the model, never edited.

/// The lines that are compared.
const MAX_LINES: usize = 20_000;
/// Of a line, characters that are compared.
const LINE_CHARS: usize = 200;
/// Lines of the wanted text that are compared.
const WANTED_LINES: usize = 20;
/// The least likeness of a suggestion, 0 to 1.
const LIKELY: f64 = 0.4;

/// The text that is most like the wanted one.
#[derive(Debug, PartialEq)]
pub(super) struct NearestText {
    /// Its first line, counted from 1.
    pub(super) start_line: u64,
    /// Its lines.
    pub(super) text: String,
    /// How alike it is, percent.
    pub(super) percent: u64,
    /// The only difference, if there is one.
    pub(super) only: Option<&'static str>,
}

/// The lines of a text that are most like the wanted one, if any are alike enough.
pub(super) fn nearest(text: &str, wanted: &str) -> Option<NearestText> {
    let cut = |line: &str| line.chars().take(LINE_CHARS).collect::<String>();
    let lines: Vec<&str> = text.split('\n').take(MAX_LINES).collect();
    let wanted: Vec<&str> = wanted.split('\n').map(|line| line.trim_end_matches('\r')).collect();
    let compared: Vec<String> = wanted.iter().take(WANTED_LINES).map(|line| cut(line)).collect();
    // The longest line says most about where it is.
    let (at, anchor) = compared.iter().enumerate().max_by_key(|(_, line)| line.trim().len())?;
    let anchor = even(anchor);
    let scored = lines.iter().enumerate().map(|(n, line)| (alike(&even(&cut(line)), &anchor), n));
    let (_, best) = scored.max_by(|(a, n), (b, m)| a.total_cmp(b).then(m.cmp(n)))?;
    let start = best.saturating_sub(at);
    let window: Vec<&str> = lines.iter().skip(start).take(wanted.len()).copied().collect();
    let total: f64 =
        window.iter().zip(&compared).map(|(line, other)| alike(&even(&cut(line)), &even(other))).sum();
    let likeness = total / f64::from(u32::try_from(compared.len()).unwrap_or(u32::MAX));
    if likeness < LIKELY {
        return None;
    }
    Some(NearestText {
        start_line: start as u64 + 1,
        text: window.iter().take(WANTED_LINES).map(|line| cut(line)).collect::<Vec<_>>().join("\n"),
        percent: percent(likeness),
        only: only(&window.join("\n"), &wanted.join("\n")),
    })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from 0 to 1")]
fn percent(likeness: f64) -> u64 {
    (likeness.clamp(0.0, 1.0) * 100.0).floor() as u64
}

fn alike(one: &str, other: &str) -> f64 {
    match (one.len(), other.len()) {
        (0, 0) => 1.0,
        // So different in length that it is not worth a look.
        (a, b) if a > 4 * b || b > 4 * a => 0.0,
        _ => strsim::sorensen_dice(one, other),
    }
}

/// The one thing in which the texts differ.
fn only(found: &str, wanted: &str) -> Option<&'static str> {
    if contains(&without_space(found), &without_space(wanted)) {
        return Some("white space (indentation, tabs or spaces, spaces at line ends)");
    }
    if contains(&straight(found), &straight(wanted)) {
        return Some("quotes or dashes (straight ones and typographic ones)");
    }
    contains(&even(found), &even(wanted)).then_some("white space, quotes, or upper and lower case")
}

fn contains(found: &str, wanted: &str) -> bool {
    !wanted.is_empty() && found.contains(wanted)
}

/// What is left when small differences are taken away.
fn even(text: &str) -> String {
    without_space(&straight(text)).to_lowercase()
}

fn without_space(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

fn straight(text: &str) -> String {
    let one = |c| match c {
        '\u{2018}' | '\u{2019}' | '\u{201b}' | '\u{2032}' => '\'',
        '\u{201c}' | '\u{201d}' | '\u{201f}' | '\u{2033}' => '"',
        '\u{2010}'..='\u{2015}' => '-',
        '\u{a0}' => ' ',
        other => other,
    };
    text.chars().map(one).collect()
}
