//! The module lists and refused builtins of the levels, and the modules that zygotes import during warm-up.

use crate::level::Level;

/// Modules of `strict`.
const STRICT: &str = "\
    collections itertools functools operator array copy enum math cmath numbers fractions decimal random \
    statistics string textwrap unicodedata typing dataclasses abc contextlib";

/// Modules of `standard`.
const STANDARD: &str = "\
    json csv re typing collections itertools functools operator heapq bisect array copy pprint enum math \
    cmath statistics random fractions decimal numbers datetime time calendar string textwrap unicodedata \
    difflib base64 binascii quopri uu html xml.etree.ElementTree dataclasses hashlib hmac abc contextlib \
    warnings logging";

/// Builtins refused at `standard` and `strict`.
const REFUSED: &str = "\
    eval exec compile __import__ open input globals locals vars breakpoint exit quit memoryview \
    bytearray";

/// Builtins refused at `strict` in addition.
const REFUSED_STRICT: &str = "dir hasattr getattr setattr delattr type isinstance issubclass";

/// Modules that allowed modules import late: through the guest's frame, or when executable mappings are
/// forbidden.
const LATE: &str = "\
    _strptime unicodedata locale traceback linecache tokenize ast copyreg encodings.idna encodings.ascii \
    encodings.latin_1 encodings.utf_16 encodings.unicode_escape collections.abc html.entities threading \
    atexit signal select fcntl zlib _queue _contextvars _opcode _statistics _heapq _bisect _struct _random";

/// Parts of packages that load late and contain native code, which cannot be loaded while a program runs.
const LATE_PARTS: &[(&str, &str)] =
    &[("numpy", "numpy.random numpy.linalg numpy.fft numpy.polynomial numpy.ma")];

/// The modules that a level allows, without the extra ones.
pub(crate) fn allowed(level: Level) -> Vec<String> {
    match level {
        Level::Strict => words(STRICT),
        Level::Standard => words(STANDARD),
        Level::Lenient | Level::Shell => Vec::new(),
    }
}

/// The builtins that a level refuses.
pub(crate) fn refused_builtins(level: Level) -> Vec<String> {
    match level {
        Level::Strict => [words(REFUSED), words(REFUSED_STRICT)].concat(),
        Level::Standard => words(REFUSED),
        Level::Lenient | Level::Shell => Vec::new(),
    }
}

/// The modules that a zygote imports during warm-up. Lenient adds the interpreter's extension modules.
pub(crate) fn warm(level: Level, extra: &[String]) -> Vec<String> {
    let late_parts = LATE_PARTS.iter().filter(|(package, _)| extra.iter().any(|name| name == package));
    let parts = late_parts.flat_map(|(_, parts)| words(parts)).collect();
    [allowed(level), words(LATE), parts, extra.to_vec()].concat()
}

fn words(list: &str) -> Vec<String> {
    list.split_ascii_whitespace().map(str::to_owned).collect()
}

/// Whether this is a valid module name: identifiers separated by dots.
pub(crate) fn is_module_name(name: &str) -> bool {
    let is_identifier = |part: &str| {
        let mut letters = part.chars();
        letters.next().is_some_and(|first| first.is_alphabetic() || first == '_')
            && letters.all(|letter| letter.is_alphanumeric() || letter == '_')
    };
    name.len() <= MAX_MODULE_NAME_BYTES && name.split('.').all(is_identifier)
}

/// The longest module name.
const MAX_MODULE_NAME_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_refuses_more_builtins_than_standard() {
        let standard = refused_builtins(Level::Standard);
        let strict = refused_builtins(Level::Strict);
        assert!(standard.iter().all(|name| strict.contains(name)));
        assert!(strict.len() > standard.len());
        assert!(refused_builtins(Level::Lenient).is_empty());
    }

    #[test]
    fn no_allowed_module_gives_access_to_files_or_sockets() {
        for name in ["os", "sys", "io", "socket", "subprocess", "ctypes", "importlib"] {
            let name = name.to_owned();
            assert!(!allowed(Level::Standard).contains(&name) && !allowed(Level::Strict).contains(&name));
        }
    }

    #[test]
    fn module_names_are_dotted_identifiers() {
        for good in ["numpy", "numpy.linalg", "_x1", "größe"] {
            assert!(is_module_name(good), "{good}");
        }
        for bad in ["", ".", "a.", ".a", "a..b", "1a", "a b", "a-b", "../x", "-c", "a\0", "a;b", "os,sys"] {
            assert!(!is_module_name(bad), "{bad}");
        }
        assert!(!is_module_name(&"a".repeat(MAX_MODULE_NAME_BYTES + 1)));
    }
}
