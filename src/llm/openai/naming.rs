//! Makes tool names and call ids valid for a provider. Valid ones stay, and the same input always gives the
//! same output.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The longest name of a function, characters.
const NAME_CHARS: usize = 64;
/// The longest call id that `OpenAI` accepts, bytes.
const ID_BYTES: usize = 40;

/// The alphabet of ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdAlphabet {
    /// Any id, up to a length.
    Any,
    /// Nine letters and digits (Mistral).
    Nine,
}

/// A valid tool name. Models invent names that their own provider refuses (`functions.calculator`).
pub(super) fn name(name: &str) -> Cow<'_, str> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.len() <= NAME_CHARS && name.chars().all(is_valid) {
        return Cow::Borrowed(name);
    }
    let plain: String = name.chars().take(NAME_CHARS).map(|c| if is_valid(c) { c } else { '_' }).collect();
    Cow::Owned(if plain.is_empty() { "unknown".to_owned() } else { plain })
}

/// A valid id, the same for a call and its result.
pub(super) fn id(id: &str, ids: IdAlphabet) -> Cow<'_, str> {
    let is_valid = match ids {
        IdAlphabet::Any => id.len() <= ID_BYTES,
        IdAlphabet::Nine => id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()),
    };
    if is_valid {
        return Cow::Borrowed(id);
    }
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    let hex = format!("{:016x}", hasher.finish());
    Cow::Owned(match ids {
        IdAlphabet::Any => format!("call_{hex}"),
        IdAlphabet::Nine => hex.chars().take(9).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_names_and_ids_stay_and_others_are_replaced() {
        assert_eq!(
            (name("get_weather-2"), name("functions.calculator")),
            ("get_weather-2".into(), "functions_calculator".into())
        );
        assert_eq!((name(""), name(&"é".repeat(100)).len()), ("unknown".into(), NAME_CHARS));
        assert_eq!(id("call_1", IdAlphabet::Any), "call_1");
        let long = "toolu_".repeat(20);
        assert!(id(&long, IdAlphabet::Any).len() <= ID_BYTES);
        assert_eq!(id(&long, IdAlphabet::Any), id(&long, IdAlphabet::Any), "a result finds its call");
        assert_ne!(id("call_1", IdAlphabet::Nine), id("call_2", IdAlphabet::Nine));
        assert_eq!(
            (id("call_1", IdAlphabet::Nine).len(), id("abcDEF123", IdAlphabet::Nine)),
            (9, "abcDEF123".into())
        );
    }
}
