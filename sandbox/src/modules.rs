//! The module lists and refused builtins of the levels, and what `CPython` loads before the filters close.

use crate::level::Level;

/// Modules of `strict`.
const STRICT: &[&str] = &[
    "collections",
    "itertools",
    "functools",
    "operator",
    "array",
    "copy",
    "enum",
    "math",
    "cmath",
    "numbers",
    "fractions",
    "decimal",
    "random",
    "statistics",
    "string",
    "textwrap",
    "unicodedata",
    "typing",
    "dataclasses",
    "abc",
    "contextlib",
];

/// Modules of `standard`.
const STANDARD: &[&str] = &[
    "json",
    "csv",
    "re",
    "typing",
    "collections",
    "itertools",
    "functools",
    "operator",
    "heapq",
    "bisect",
    "array",
    "copy",
    "pprint",
    "enum",
    "math",
    "cmath",
    "statistics",
    "random",
    "fractions",
    "decimal",
    "numbers",
    "datetime",
    "time",
    "calendar",
    "string",
    "textwrap",
    "unicodedata",
    "difflib",
    "base64",
    "binascii",
    "quopri",
    "uu",
    "html",
    "xml.etree.ElementTree",
    "dataclasses",
    "hashlib",
    "hmac",
    "abc",
    "contextlib",
    "warnings",
    "logging",
];

/// Builtins refused at `standard` and `strict`.
const REFUSED: &[&str] = &[
    "eval",
    "exec",
    "compile",
    "__import__",
    "open",
    "input",
    "globals",
    "locals",
    "vars",
    "breakpoint",
    "exit",
    "quit",
    "memoryview",
    "bytearray",
];

/// Builtins refused at `strict` besides.
const REFUSED_STRICT: &[&str] =
    &["dir", "hasattr", "getattr", "setattr", "delattr", "type", "isinstance", "issubclass"];

/// Modules that listed ones import late, through the guest's frame or after executable mappings are closed.
const LATE: &[&str] = &[
    "_strptime",
    "unicodedata",
    "locale",
    "traceback",
    "linecache",
    "tokenize",
    "ast",
    "copyreg",
    "encodings.idna",
    "encodings.ascii",
    "encodings.latin_1",
    "encodings.utf_16",
    "encodings.unicode_escape",
    "collections.abc",
    "html.entities",
    "json.tool",
    "_pydecimal",
    "threading",
    "atexit",
    "signal",
    "select",
    "fcntl",
    "zlib",
    "_queue",
    "_contextvars",
    "_opcode",
    "_statistics",
    "_heapq",
    "_bisect",
    "_struct",
    "_random",
];

/// Parts of packages that load late and bring native code, which no program can load once it runs.
const LATE_PARTS: &[(&str, &[&str])] =
    &[("numpy", &["numpy.random", "numpy.linalg", "numpy.fft", "numpy.polynomial", "numpy.ma"])];

/// Modules that a level allows, before the extra ones.
pub(crate) fn allowed(level: Level) -> &'static [&'static str] {
    match level {
        Level::Strict => STRICT,
        Level::Standard => STANDARD,
        Level::Lenient | Level::Shell => &[],
    }
}

/// Builtins that a level refuses.
pub(crate) fn refused_builtins(level: Level) -> Vec<String> {
    let lists: &[&[&str]] = match level {
        Level::Strict => &[REFUSED, REFUSED_STRICT],
        Level::Standard => &[REFUSED],
        Level::Lenient | Level::Shell => &[],
    };
    lists.iter().copied().flatten().map(|&name| name.to_owned()).collect()
}

/// Modules imported while the interpreter warms up. Lenient adds the interpreter's extension modules.
pub(crate) fn warm(level: Level, extra: &[String]) -> Vec<String> {
    let late = LATE_PARTS.iter().filter(|(package, _)| extra.iter().any(|name| name == package));
    let parts = late.flat_map(|(_, parts)| parts.iter());
    let listed = allowed(level).iter().chain(LATE).chain(parts).map(|&name| name.to_owned());
    listed.chain(extra.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_refuses_what_standard_refuses_and_more() {
        let standard = refused_builtins(Level::Standard);
        let strict = refused_builtins(Level::Strict);
        assert!(standard.iter().all(|name| strict.contains(name)));
        assert!(strict.len() > standard.len());
        assert!(refused_builtins(Level::Lenient).is_empty());
    }

    #[test]
    fn no_listed_module_opens_files_or_sockets_by_purpose() {
        for name in ["os", "sys", "io", "socket", "subprocess", "ctypes", "importlib"] {
            assert!(!allowed(Level::Standard).contains(&name) && !allowed(Level::Strict).contains(&name));
        }
    }
}
