//! One skill in the Agent Skills format (agentskills.io): a folder with a file `SKILL.md`, whose YAML front
//! matter names and describes it.

use serde::Deserialize;

/// The file that makes a folder a skill.
pub(crate) const SKILL_FILE: &str = "SKILL.md";
/// The longest file, bytes.
pub(super) const SKILL_BYTES: u64 = 1024 * 1024;
/// The beginning of the file that must hold the front matter, bytes.
pub(super) const HEAD_BYTES: usize = 16 * 1024;
/// The longest name, characters.
const NAME_CHARS: usize = 64;
/// The longest description, characters.
const DESCRIPTION_CHARS: usize = 1_024;
/// The longest `compatibility`, characters.
const COMPATIBILITY_CHARS: usize = 500;
/// The line before and after the front matter.
const FENCE: &str = "---";

/// Why a folder is no skill.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkillError {
    /// The name cannot be one.
    #[error(
        "the name of a skill's folder has 1 to {NAME_CHARS} lower-case letters, digits and hyphens, and no hyphen at \
         its start, at its end or beside another one"
    )]
    Folder,
    /// It is no directory.
    #[error("is a link, not a folder; links are not followed")]
    Link,
    /// The file is missing or cannot be read.
    #[error("{SKILL_FILE}: {0}")]
    File(String),
    /// There is no front matter.
    #[error("{SKILL_FILE} must begin with YAML between two lines '---', within its first {HEAD_BYTES} bytes")]
    FrontMatter,
    /// The front matter is no YAML of the right types.
    #[error("the YAML of {SKILL_FILE} is invalid: {0}")]
    Yaml(String),
    /// A field is missing, empty or too long.
    #[error("'{field}' of {SKILL_FILE} must have 1 to {max_chars} characters")]
    Length {
        /// The field.
        field: &'static str,
        /// The limit.
        max_chars: usize,
    },
    /// The name is not the folder's.
    #[error("'name' of {SKILL_FILE} is '{0}'; it must be the name of the folder")]
    OtherName(String),
    /// The operator's skill counts.
    #[error("the operator of the server has a folder of this name, which counts")]
    Overridden,
    /// There are too many folders.
    #[error("only the first {0} folders are looked at")]
    TooMany(usize),
}

/// What is known of a skill without reading its instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// Its name, also that of its folder.
    pub name: String,
    /// What it does and when to use it, on one line.
    pub description: String,
    /// What it needs, on one line.
    pub compatibility: Option<String>,
}

/// The fields that count here. `license`, `metadata`, `allowed-tools` and unknown ones are for others: a
/// skill gives a job no tool.
#[derive(Deserialize)]
struct FrontMatter {
    #[serde(default)]
    name: String,
    #[serde(default)]
    description: String,
    compatibility: Option<String>,
}

impl Skill {
    /// The skill of a folder whose `SKILL.md` begins with this text.
    pub(super) fn parse(folder: &str, head: &str) -> Result<Self, SkillError> {
        let (yaml, _) = split(head).ok_or(SkillError::FrontMatter)?;
        let FrontMatter { name, description, compatibility } =
            serde_norway::from_str(yaml).map_err(|error| SkillError::Yaml(error.to_string()))?;
        if name != folder {
            let shown = name.chars().filter(|c| !c.is_control()).take(NAME_CHARS).collect();
            return Err(SkillError::OtherName(shown));
        }
        let description = line("description", &description, DESCRIPTION_CHARS)?;
        let compatibility = compatibility.map(|text| line("compatibility", &text, COMPATIBILITY_CHARS));
        Ok(Self { name, description, compatibility: compatibility.transpose()? })
    }
}

/// The text on one line, so that it looks like nothing else in a prompt.
fn line(field: &'static str, text: &str, max_chars: usize) -> Result<String, SkillError> {
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    let fits = (1..=max_chars).contains(&line.chars().count());
    fits.then_some(line).ok_or(SkillError::Length { field, max_chars })
}

/// Whether a folder of this name can be a skill.
pub(super) fn is_name(name: &str) -> bool {
    let is_fine =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    name.len() <= NAME_CHARS && name.split('-').all(is_fine)
}

/// The front matter of a file, and the instructions after it.
pub(crate) fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut end = 0_usize;
    let mut start = None;
    for line in text.split_inclusive('\n') {
        let next = end.saturating_add(line.len());
        match (start, line.trim_end() == FENCE) {
            (None, true) => start = Some(next),
            (None, false) => return None,
            (Some(start), true) => return Some((text.get(start..end)?, text.get(next..)?)),
            (Some(_), false) => {}
        }
        end = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(yaml: &str) -> Result<Skill, SkillError> {
        Skill::parse("pdf-forms", &format!("---\n{yaml}\n---\n# Body\n"))
    }

    #[test]
    fn a_skill_has_a_name_and_a_description_on_one_line() {
        let yaml = "name: pdf-forms\ndescription: |\n  Fill in\n\n  PDF forms.\nlicense: MIT\nmetadata: {a: 1}\n\
                    allowed-tools: Bash(git:*)\nversion: 2\ncompatibility: Needs qpdf";
        let skill = parse(yaml).expect("a skill");
        assert_eq!((skill.name.as_str(), skill.description.as_str()), ("pdf-forms", "Fill in PDF forms."));
        assert_eq!(skill.compatibility.as_deref(), Some("Needs qpdf"));
        let windows = "\u{feff}---\r\nname: pdf-forms\r\ndescription: x\r\n---\r\nbody";
        assert_eq!(Skill::parse("pdf-forms", windows).map(|skill| skill.description), Ok("x".to_owned()));
        assert_eq!(split(windows).map(|(_, body)| body), Some("body"));
    }

    #[test]
    fn each_fault_of_the_front_matter_has_its_reason() {
        let long = format!("name: pdf-forms\ndescription: {}", "x".repeat(DESCRIPTION_CHARS + 1));
        let length = |field, max_chars| SkillError::Length { field, max_chars };
        for (yaml, expected) in [
            ("name: pdf-forms", length("description", DESCRIPTION_CHARS)),
            ("name: pdf-forms\ndescription: ' '", length("description", DESCRIPTION_CHARS)),
            (long.as_str(), length("description", DESCRIPTION_CHARS)),
            (
                "name: pdf-forms\ndescription: x\ncompatibility: ''",
                length("compatibility", COMPATIBILITY_CHARS),
            ),
            ("name: other\ndescription: x", SkillError::OtherName("other".to_owned())),
            ("description: x", SkillError::OtherName(String::new())),
        ] {
            assert_eq!(parse(yaml), Err(expected), "{yaml}");
        }
        for yaml in ["name: [", "- a", "name: pdf-forms\ndescription: [x]", "name: pdf-forms\nname: x"] {
            assert!(matches!(parse(yaml), Err(SkillError::Yaml(_))), "{yaml}");
        }
        for text in ["", "# Title\n", "---\nname: pdf-forms\n", "text\n---\nname: x\n---\n", " ---\nx\n---\n"]
        {
            assert_eq!(Skill::parse("pdf-forms", text), Err(SkillError::FrontMatter), "{text:?}");
        }
    }

    #[test]
    fn names_have_lower_case_letters_digits_and_single_hyphens() {
        for name in ["a", "pdf", "pdf-forms-2", &"x".repeat(64)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "-a", "a-", "a--b", "Pdf", "a_b", "a b", "ä", "a/b", "..", &"x".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
