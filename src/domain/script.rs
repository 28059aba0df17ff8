//! Scripts of letters, for names that must not mix look-alikes such as Latin `a` and Cyrillic `а`.

use std::ops::RangeInclusive;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LetterScript {
    Latin,
    Greek,
    Cyrillic,
    Armenian,
    Hebrew,
    Arabic,
    Georgian,
    /// Chinese, Japanese and Korean, which are written together.
    EastAsian,
    /// Scripts of India and its neighbours, each of them 128 characters of Unicode.
    Indic(u32),
    /// All others; none of them may stand beside another script.
    Other,
}

/// Unicode blocks of the scripts.
const BLOCKS: &[(RangeInclusive<u32>, LetterScript)] = &[
    (0x41..=0x24f, LetterScript::Latin),
    (0x250..=0x2b8, LetterScript::Latin),
    (0x370..=0x3ff, LetterScript::Greek),
    (0x400..=0x52f, LetterScript::Cyrillic),
    (0x531..=0x58f, LetterScript::Armenian),
    (0x591..=0x5ff, LetterScript::Hebrew),
    (0x600..=0x6ff, LetterScript::Arabic),
    (0x750..=0x77f, LetterScript::Arabic),
    (0x870..=0x8ff, LetterScript::Arabic),
    (0x10a0..=0x10ff, LetterScript::Georgian),
    (0x1100..=0x11ff, LetterScript::EastAsian),
    (0x1c80..=0x1c8f, LetterScript::Cyrillic),
    (0x1c90..=0x1cbf, LetterScript::Georgian),
    (0x1e00..=0x1eff, LetterScript::Latin),
    (0x1f00..=0x1fff, LetterScript::Greek),
    (0x2c60..=0x2c7f, LetterScript::Latin),
    (0x2d00..=0x2d2f, LetterScript::Georgian),
    (0x2de0..=0x2dff, LetterScript::Cyrillic),
    (0x2e80..=0x2fdf, LetterScript::EastAsian),
    (0x3005..=0x4dbf, LetterScript::EastAsian),
    (0x4e00..=0x9fff, LetterScript::EastAsian),
    (0xa640..=0xa69f, LetterScript::Cyrillic),
    (0xa722..=0xa7ff, LetterScript::Latin),
    (0xa960..=0xa97f, LetterScript::EastAsian),
    (0xab30..=0xab6f, LetterScript::Latin),
    (0xac00..=0xd7ff, LetterScript::EastAsian),
    (0xf900..=0xfaff, LetterScript::EastAsian),
    (0x20000..=0x3ffff, LetterScript::EastAsian),
];

/// Blocks of 128 characters that hold one script each.
const INDIC: RangeInclusive<u32> = 0x900..=0xdff;

/// Whether the letters and digits of a name come from scripts that are not written together. ASCII digits and
/// signs belong to every script.
pub(super) fn mixes_scripts(name: &str) -> bool {
    let mut scripts: Vec<LetterScript> = name.chars().filter_map(script).collect();
    scripts.dedup();
    let is_east_asian =
        |script: &LetterScript| matches!(script, LetterScript::Latin | LetterScript::EastAsian);
    scripts.iter().any(|script| Some(script) != scripts.first()) && !scripts.iter().all(is_east_asian)
}

/// The script of a letter or digit; `None` for characters of every script.
fn script(c: char) -> Option<LetterScript> {
    if !c.is_alphanumeric() || c.is_ascii_digit() {
        return None;
    }
    let code = u32::from(c);
    if INDIC.contains(&code) {
        return Some(LetterScript::Indic(code / 128));
    }
    let block = BLOCKS.iter().find(|(codes, _)| codes.contains(&code));
    Some(block.map_or(LetterScript::Other, |(_, script)| *script))
}
