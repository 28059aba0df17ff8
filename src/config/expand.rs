//! Expands `${NAME}`, `$NAME` and `$$` in the strings of a file. An unset variable is an error: an empty key
//! would fail much later, at the provider.

use super::error::ConfigError;
use figment::value::Value;
use std::collections::BTreeMap;

/// The environment.
pub(crate) type Variables = BTreeMap<String, String>;

/// The forms of variables that the strings of a file may have.
#[derive(Debug, Clone, Copy)]
pub(crate) enum VariableForms {
    /// `${NAME}`, `$NAME` and `$$`.
    Own,
    /// Those of MCP clients: `${NAME}`, `${env:NAME}` and `${NAME:-default}`. Every other dollar sign stays,
    /// because clients leave it, too.
    McpClients,
}

/// Expands every string inside `value`, whose key is `key`.
pub(crate) fn expand(
    key: &str,
    value: &mut Value,
    forms: VariableForms,
    variables: &Variables,
    origin: &str,
) -> Result<(), ConfigError> {
    match value {
        Value::String(_, text) if text.contains('$') => {
            let expanded = match forms {
                VariableForms::Own => expand_text(text, variables),
                VariableForms::McpClients => expand_braces(text, variables),
            };
            *text = expanded.map_err(|error| error.at(key, origin))?;
        }
        Value::Dict(_, dict) => {
            for (name, inner) in dict {
                expand(&join_key(key, name), inner, forms, variables, origin)?;
            }
        }
        Value::Array(_, list) => {
            for (at, inner) in list.iter_mut().enumerate() {
                expand(&format!("{key}[{at}]"), inner, forms, variables, origin)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn expand_braces(text: &str, variables: &Variables) -> Result<String, ExpandError> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        expanded.push_str(before);
        let form = after.split_once('}').and_then(|(form, tail)| {
            let (named, default) = match form.split_once(":-") {
                Some((named, default)) => (named, Some(default)),
                None => (form, None),
            };
            Some((is_name(named.strip_prefix("env:").unwrap_or(named))?, default, tail))
        });
        let Some((name, default, tail)) = form else {
            expanded.push_str("${");
            rest = after;
            continue;
        };
        let value = variables.get(name).map(String::as_str).or(default);
        expanded.push_str(value.ok_or_else(|| ExpandError::Unset(name.to_owned()))?);
        rest = tail;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// The text if it is the name of a variable.
fn is_name(text: &str) -> Option<&str> {
    let starts_valid = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let is_valid = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    (starts_valid && is_valid).then_some(text)
}

/// The dotted name of a key inside another one.
pub(crate) fn join_key(key: &str, name: &str) -> String {
    if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") }
}

#[derive(Debug, PartialEq, Eq)]
enum ExpandError {
    Unset(String),
    Dollar(String),
}

impl ExpandError {
    fn at(self, key: &str, origin: &str) -> ConfigError {
        let (key, origin) = (key.to_owned(), origin.to_owned());
        match self {
            Self::Unset(variable) => ConfigError::Unset { key, variable, origin },
            Self::Dollar(text) => ConfigError::Dollar { key, text, origin },
        }
    }
}

fn expand_text(text: &str, variables: &Variables) -> Result<String, ExpandError> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        if let Some(after_escape) = after.strip_prefix('$') {
            expanded.push('$');
            rest = after_escape;
            continue;
        }
        let (name, tail) = name(after).ok_or_else(|| {
            ExpandError::Dollar(format!("${}", after.split(' ').next().unwrap_or_default()))
        })?;
        expanded.push_str(variables.get(name).ok_or_else(|| ExpandError::Unset(name.to_owned()))?);
        rest = tail;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// The variable name at the start of `text`, which follows a dollar sign, and the rest.
fn name(text: &str) -> Option<(&str, &str)> {
    let (name, tail) = match text.strip_prefix('{') {
        Some(braced) => braced.split_once('}')?,
        None => {
            text.split_at(text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len()))
        }
    };
    Some((is_name(name)?, tail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn vars() -> Variables {
        BTreeMap::from([("KEY".to_owned(), "k$1".to_owned()), ("_A2".to_owned(), "x".to_owned())])
    }

    #[test]
    fn all_three_variable_forms_expand_once() {
        assert_eq!(expand_text("a${KEY}b$_A2-$$KEY", &vars()).as_deref(), Ok("ak$1bx-$KEY"));
    }

    #[test]
    fn an_invalid_variable_is_refused() {
        assert_eq!(expand_text("${NOPE}", &vars()), Err(ExpandError::Unset("NOPE".into())));
        for bad in ["$", "${", "${}", "${KEY", "$1", "${A-b}", "a$ b"] {
            assert!(matches!(expand_text(bad, &vars()), Err(ExpandError::Dollar(_))), "{bad}");
        }
    }

    #[test]
    fn the_forms_of_other_clients_expand_and_other_dollars_stay() {
        for (text, expanded) in [
            ("Bearer ${KEY}", "Bearer k$1"),
            ("${env:_A2}/x", "x/x"),
            ("${NOPE:-fallback}${KEY:-unused}", "fallbackk$1"),
            ("${NOPE:-}", ""),
            ("pa$$word $KEY $1", "pa$$word $KEY $1"),
            ("${input:token} ${", "${input:token} ${"),
        ] {
            assert_eq!(expand_braces(text, &vars()).as_deref(), Ok(expanded), "{text}");
        }
        assert_eq!(expand_braces("${env:NOPE}", &vars()), Err(ExpandError::Unset("NOPE".into())));
    }

    proptest! {
        #[test]
        fn any_text_can_be_escaped_with_double_dollars(text in any::<String>()) {
            prop_assert_eq!(expand_text(&text.replace('$', "$$"), &vars()), Ok(text));
        }
    }
}
