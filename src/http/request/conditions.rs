//! `If-Match` and `If-None-Match` (RFC 9110): conditions on the version of a file.

use crate::domain::file_version::{FileCondition, FileVersion};
use crate::http::error::ApiError;
use hyper::HeaderMap;
use hyper::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};

/// The entity tags of a header.
#[derive(Debug, PartialEq, Eq)]
enum EntityTags {
    /// `*`
    Any,
    /// What stands between the quotes of each, and whether it is weak.
    Listed(Vec<(String, bool)>),
}

/// The version as an `ETag`.
pub(crate) fn entity_tag(version: FileVersion) -> String {
    format!("\"{version}\"")
}

/// The condition of a change. A weak tag never matches.
pub(crate) fn of_change(headers: &HeaderMap) -> Result<FileCondition, ApiError> {
    match (tags(headers, &IF_MATCH)?, tags(headers, &IF_NONE_MATCH)?) {
        (None, None) => Ok(FileCondition::Always),
        (Some(EntityTags::Any), None) => Ok(FileCondition::Exists),
        (Some(EntityTags::Listed(tags)), None) => {
            let strong = tags.into_iter().filter(|(_, is_weak)| !is_weak).map(|(tag, _)| tag);
            Ok(FileCondition::Versions(strong.collect()))
        }
        (None, Some(EntityTags::Any)) => Ok(FileCondition::Missing),
        (None, Some(EntityTags::Listed(_))) => {
            Err(ApiError::value("If-None-Match", "'If-None-Match' of a change must be *: a new file only"))
        }
        (Some(_), Some(_)) => {
            Err(ApiError::value("If-None-Match", "send 'If-Match' or 'If-None-Match', not both"))
        }
    }
}

/// Whether the client of a read has this version already.
pub(crate) fn is_known(headers: &HeaderMap, version: FileVersion) -> Result<bool, ApiError> {
    let version = version.to_string();
    Ok(match tags(headers, &IF_NONE_MATCH)? {
        None => false,
        Some(EntityTags::Any) => true,
        Some(EntityTags::Listed(tags)) => tags.iter().any(|(tag, _)| *tag == version),
    })
}

/// The tags of all lines of a header.
fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<EntityTags>, ApiError> {
    let mut listed = Vec::new();
    let mut is_any = false;
    for line in headers.get_all(name) {
        let line = line.to_str().map_err(|_| malformed(name))?.trim();
        if line == "*" {
            is_any = true;
        } else {
            read_list(line, &mut listed).ok_or_else(|| malformed(name))?;
        }
    }
    match (is_any, listed.is_empty()) {
        (true, true) => Ok(Some(EntityTags::Any)),
        (true, false) => Err(malformed(name)),
        (false, true) => Ok(None),
        (false, false) => Ok(Some(EntityTags::Listed(listed))),
    }
}

/// Adds `"a", W/"b"`; `None` if the list is malformed.
fn read_list(line: &str, listed: &mut Vec<(String, bool)>) -> Option<()> {
    let mut rest = line;
    loop {
        let (is_weak, quoted) = rest.strip_prefix("W/").map_or((false, rest), |strong| (true, strong));
        let (tag, after) = quoted.strip_prefix('"')?.split_once('"')?;
        listed.push((tag.to_owned(), is_weak));
        let after = after.trim_start();
        if after.is_empty() {
            return Some(());
        }
        rest = after.strip_prefix(',')?.trim_start();
    }
}

fn malformed(name: &HeaderName) -> ApiError {
    let shown = if *name == IF_MATCH { "If-Match" } else { "If-None-Match" };
    ApiError::value(shown, format!("'{shown}' must be * or entity tags in double quotes, as ETag shows them"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn headers(lines: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_change_takes_tags_or_a_star() {
        let read = |lines: &[_]| of_change(&headers(lines)).ok();
        let versions =
            |tags: &[&str]| Some(FileCondition::Versions(tags.iter().map(|&tag| tag.to_owned()).collect()));
        assert_eq!(read(&[]), Some(FileCondition::Always));
        assert_eq!(read(&[(IF_MATCH, " * ")]), Some(FileCondition::Exists));
        assert_eq!(read(&[(IF_NONE_MATCH, "*")]), Some(FileCondition::Missing));
        assert_eq!(read(&[(IF_MATCH, "\"a\" , W/\"b\",\"c,d\"")]), versions(&["a", "c,d"]));
        assert_eq!(read(&[(IF_MATCH, "\"a\""), (IF_MATCH, "\"b\"")]), versions(&["a", "b"]));
        assert_eq!(read(&[(IF_MATCH, "W/\"a\"")]), versions(&[]), "a weak tag matches nothing");
        for bad in ["", "a", "\"a", "\"a\",", "\"a\" \"b\"", "\"a\", *", "w/\"a\""] {
            assert_eq!(read(&[(IF_MATCH, bad)]), None, "{bad}");
        }
        assert_eq!(read(&[(IF_MATCH, "*"), (IF_NONE_MATCH, "*")]), None);
        assert_eq!(read(&[(IF_NONE_MATCH, "\"a\"")]), None);
        assert_eq!(read(&[(IF_MATCH, "*"), (IF_MATCH, "\"a\"")]), None);
    }

    #[test]
    fn a_read_compares_tags_weakly() {
        let version = FileVersion::of_content(b"x");
        let tag: &'static str = entity_tag(version).leak();
        let weak: &'static str = format!("\"other\", W/{tag}").leak();
        let known = |value| is_known(&headers(&[(IF_NONE_MATCH, value)]), version).ok();
        assert_eq!((known(tag), known(weak), known("*")), (Some(true), Some(true), Some(true)));
        assert_eq!((known("\"other\""), known("x")), (Some(false), None));
        assert_eq!(is_known(&HeaderMap::new(), version).ok(), Some(false));
    }
}
