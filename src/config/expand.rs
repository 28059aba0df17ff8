//! `${NAME}`, `$NAME` and `$$` in the strings of a file. Owns the grammar; refuses variables that are not set: an empty
//! key sent to a provider is found much later than a clear error at the start.

use super::error::ConfigError;
use figment::value::Value;
use std::collections::BTreeMap;

/// The environment.
pub(crate) type Variables = BTreeMap<String, String>;

/// Expands every string beneath `key`, in place.
pub(crate) fn expand(
    key: &str,
    value: &mut Value,
    variables: &Variables,
    origin: &str,
) -> Result<(), ConfigError> {
    match value {
        Value::String(_, text) if text.contains('$') => {
            *text = expand_text(text, variables).map_err(|fault| fault.at(key, origin))?;
        }
        Value::Dict(_, dict) => {
            for (name, inner) in dict {
                expand(&below(key, name), inner, variables, origin)?;
            }
        }
        Value::Array(_, list) => {
            for (at, inner) in list.iter_mut().enumerate() {
                expand(&format!("{key}[{at}]"), inner, variables, origin)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// The dotted name of a key inside another one.
pub(crate) fn below(key: &str, name: &str) -> String {
    if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") }
}

#[derive(Debug, PartialEq, Eq)]
enum Fault {
    Unset(String),
    Dollar(String),
}

impl Fault {
    fn at(self, key: &str, origin: &str) -> ConfigError {
        let (key, origin) = (key.to_owned(), origin.to_owned());
        match self {
            Self::Unset(variable) => ConfigError::Unset { key, variable, origin },
            Self::Dollar(text) => ConfigError::Dollar { key, text, origin },
        }
    }
}

fn expand_text(text: &str, variables: &Variables) -> Result<String, Fault> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        if let Some(plain) = after.strip_prefix('$') {
            expanded.push('$');
            rest = plain;
            continue;
        }
        let (name, tail) = name(after)
            .ok_or_else(|| Fault::Dollar(format!("${}", after.split(' ').next().unwrap_or_default())))?;
        expanded.push_str(variables.get(name).ok_or_else(|| Fault::Unset(name.to_owned()))?);
        rest = tail;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// The variable's name at the start of `text`, which follows a dollar sign, and what comes after it.
fn name(text: &str) -> Option<(&str, &str)> {
    let (name, tail) = match text.strip_prefix('{') {
        Some(braced) => braced.split_once('}')?,
        None => {
            text.split_at(text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len()))
        }
    };
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    (starts && plain).then_some((name, tail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn vars() -> Variables {
        BTreeMap::from([("KEY".to_owned(), "k$1".to_owned()), ("_A2".to_owned(), "x".to_owned())])
    }

    #[test]
    fn all_three_forms_expand_once() {
        assert_eq!(expand_text("a${KEY}b$_A2-$$KEY", &vars()).as_deref(), Ok("ak$1bx-$KEY"));
    }

    #[test]
    fn what_is_no_variable_is_refused() {
        assert_eq!(expand_text("${NOPE}", &vars()), Err(Fault::Unset("NOPE".into())));
        for bad in ["$", "${", "${}", "${KEY", "$1", "${A-b}", "a$ b"] {
            assert!(matches!(expand_text(bad, &vars()), Err(Fault::Dollar(_))), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_text_can_be_written(text in any::<String>()) {
            prop_assert_eq!(expand_text(&text.replace('$', "$$"), &vars()), Ok(text));
        }
    }
}
