//! Chooses the name of a project's directory.

/// Maximum length of a directory name, bytes.
const DIRECTORY_BYTES: usize = 255;

/// The wanted name, or the first of `name_1`, `name_2` … that is free.
pub(crate) fn free_name(wanted: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut name = truncated(wanted, DIRECTORY_BYTES).to_owned();
    let mut number = 0_u64;
    while is_taken(&name) {
        number = number.saturating_add(1);
        let end = format!("_{number}");
        name = format!("{}{end}", truncated(wanted, DIRECTORY_BYTES.saturating_sub(end.len())));
    }
    name
}

/// The start of the text that fits, without cutting a character.
fn truncated(text: &str, bytes: usize) -> &str {
    let fits =
        text.char_indices().map(|(at, c)| at.saturating_add(c.len_utf8())).take_while(|end| *end <= bytes);
    text.get(..fits.last().unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_directory_gets_the_first_free_number_within_255_bytes() {
        let taken = ["a", "a_1", "a_3"];
        assert_eq!(free_name("a", |name| taken.contains(&name)), "a_2");
        assert_eq!(free_name("b", |name| taken.contains(&name)), "b");
        let long = "é".repeat(127);
        let name = free_name(&long, |name| name == long);
        assert!(name.ends_with("é_1") && name.len() <= 255, "{name}");
        assert_eq!(free_name(&"x".repeat(300), |_| false).len(), 255);
    }
}
