//! Names and ids as this dialect's providers take them. Owns their alphabets and lengths; refuses to change those that are
//! fine: a name or an id is told the same way wherever it stands in a history.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The longest name of a function, characters.
const NAME_CHARS: usize = 64;
/// The longest id of a call that `OpenAI` takes, bytes.
const ID_BYTES: usize = 40;

/// The alphabet of ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ids {
    /// Whatever the model's own provider made up, up to a length.
    Any,
    /// Nine letters and digits (Mistral).
    Nine,
}

/// A tool's name: models make names up that their own provider refuses (`functions.calculator`).
pub(super) fn name(name: &str) -> Cow<'_, str> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.len() <= NAME_CHARS && name.chars().all(is_fine) {
        return Cow::Borrowed(name);
    }
    let plain: String = name.chars().take(NAME_CHARS).map(|c| if is_fine(c) { c } else { '_' }).collect();
    Cow::Owned(if plain.is_empty() { "unknown".to_owned() } else { plain })
}

/// The id of a call: the same for a call and its result.
pub(super) fn id(id: &str, ids: Ids) -> Cow<'_, str> {
    let is_fine = match ids {
        Ids::Any => id.len() <= ID_BYTES,
        Ids::Nine => id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()),
    };
    if is_fine {
        return Cow::Borrowed(id);
    }
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    let hex = format!("{:016x}", hasher.finish());
    Cow::Owned(match ids {
        Ids::Any => format!("call_{hex}"),
        Ids::Nine => hex.chars().take(9).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fine_names_and_ids_stay_and_others_fit() {
        assert_eq!(
            (name("get_weather-2"), name("functions.calculator")),
            ("get_weather-2".into(), "functions_calculator".into())
        );
        assert_eq!((name(""), name(&"é".repeat(100)).len()), ("unknown".into(), NAME_CHARS));
        assert_eq!(id("call_1", Ids::Any), "call_1");
        let long = "toolu_".repeat(20);
        assert!(id(&long, Ids::Any).len() <= ID_BYTES);
        assert_eq!(id(&long, Ids::Any), id(&long, Ids::Any), "a result finds its call");
        assert_ne!(id("call_1", Ids::Nine), id("call_2", Ids::Nine));
        assert_eq!((id("call_1", Ids::Nine).len(), id("abcDEF123", Ids::Nine)), (9, "abcDEF123".into()));
    }
}
