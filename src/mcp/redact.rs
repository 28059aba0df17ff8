//! Words of others, fit to be repeated: short, on one line, without our secrets (P9).

use super::options::McpServerOptions;
use crate::domain::secret::Redactor;

/// Longest word of a server that is repeated in an error, characters.
const CHARS: usize = 400;

/// What a server, or the way to it, said.
pub(super) fn quote(said: &str, options: &McpServerOptions) -> String {
    let said = Redactor::new(options.secrets()).redact(said);
    let line = said.chars().map(|c| if c.is_control() { ' ' } else { c });
    line.take(CHARS).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p9_no_secret_is_repeated() {
        let yaml = "{command: a, env: {K: sk-12345, S: ab}, headers: {Authorization: Bearer tok-777}}";
        let options: McpServerOptions = serde_norway::from_str(yaml).expect("YAML");
        assert_eq!(quote("bad sk-12345\nand tok-777 of ab", &options), "bad *** and *** of ab");
        assert_eq!(quote(&"x".repeat(9_000), &options).len(), CHARS);
    }
}
