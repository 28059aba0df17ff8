//! What models read about skills in the prompt of each job: names and descriptions, within limits.

use super::skill::Skill;

const INTRODUCTION: &str = "Skills: tested instructions for special tasks. If one fits the task, call read_skill with its name \
                            before you begin, and do what it says.";

/// The list; `None` without skills.
pub(super) fn listing(skills: &[&Skill], max_listed: usize, max_bytes: usize) -> Option<String> {
    if skills.is_empty() {
        return None;
    }
    let (mut text, mut listed) = (INTRODUCTION.to_owned(), 0_usize);
    for Skill { name, description, .. } in skills.iter().take(max_listed) {
        let line = format!("\n- {name}: {description}");
        if text.len().saturating_add(line.len()) > max_bytes {
            break;
        }
        text.push_str(&line);
        listed = listed.saturating_add(1);
    }
    let omitted = skills.len().saturating_sub(listed);
    if omitted > 0 {
        let note = format!(
            "\n({omitted} more are not listed here, because the list has reached its limit; read_skill without a name \
             lists all names.)"
        );
        text.push_str(&note);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(number: usize) -> Skill {
        let (name, description) =
            (format!("skill-{number:02}"), format!("Does {number}. {}", "x".repeat(80)));
        Skill { name, description, compatibility: None }
    }

    #[test]
    fn the_list_names_each_skill_on_a_line() {
        let skills = [skill(1), skill(2)];
        let text = listing(&skills.iter().collect::<Vec<_>>(), 10, 10_000).expect("a list");
        assert!(text.contains("read_skill") && text.contains("\n- skill-01: Does 1. x"), "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
        assert_eq!(listing(&[], 10, 10_000), None);
    }

    #[test]
    fn p8_a_list_that_reaches_a_limit_says_how_many_are_left_out() {
        let skills: Vec<Skill> = (0..30).map(skill).collect();
        let skills: Vec<&Skill> = skills.iter().collect();
        let by_number = listing(&skills, 10, 100_000).expect("a list");
        assert!(by_number.contains("(20 more are not listed"), "{by_number}");
        let by_bytes = listing(&skills, 30, 1_024).expect("a list");
        assert!(by_bytes.len() < 1_300 && by_bytes.contains("more are not listed"), "{by_bytes}");
        assert!(!by_bytes.contains("skill-29"), "{by_bytes}");
    }
}
