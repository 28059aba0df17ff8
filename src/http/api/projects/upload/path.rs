//! The path of an uploaded file, from the names that browsers and `curl` send. A name that could lead
//! outside the project is refused before any directory is opened.

use crate::http::error::ApiError;
use crate::http::request::quoted::quoted;

/// The longest path, bytes.
const PATH_BYTES: usize = 4_096;
/// The longest segment, bytes.
const SEGMENT_BYTES: usize = 255;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UploadPath {
    /// The uploaded folder: the first segment, where there are several.
    pub(crate) top: Option<String>,
    /// The rest of the name.
    pub(crate) path: String,
}

pub(crate) fn upload_path(name: Option<&str>) -> Result<UploadPath, ApiError> {
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Err(ApiError::value("files", "a part of 'files' has no file name in UTF-8"));
    };
    let path = name.replace('\\', "/");
    if let Some(fault) = fault(&path) {
        return Err(ApiError::value("files", format!("the file name {} {fault}", quoted(name))));
    }
    Ok(match path.split_once('/') {
        Some((top, rest)) => UploadPath { top: Some(top.to_owned()), path: rest.to_owned() },
        None => UploadPath { top: None, path },
    })
}

fn fault(path: &str) -> Option<&'static str> {
    if path.len() > PATH_BYTES {
        return Some("is longer than 4096 bytes");
    }
    if path.chars().any(char::is_control) {
        return Some("has a control character");
    }
    let drive = path.as_bytes();
    if path.starts_with('/')
        || (drive.get(1) == Some(&b':') && drive.first().is_some_and(u8::is_ascii_alphabetic))
    {
        return Some("is absolute; it must be relative, as in folder/file");
    }
    path.split('/').find_map(|segment| match segment {
        "" => Some("has an empty part"),
        "." | ".." => Some("has a part that is '.' or '..'"),
        long if long.len() > SEGMENT_BYTES => Some("has a part of more than 255 bytes"),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(name: &str) -> Option<(Option<String>, String)> {
        upload_path(Some(name)).ok().map(|place| (place.top, place.path))
    }

    #[test]
    fn the_first_folder_of_an_upload_path_is_removed() {
        let found = |top: &str, path: &str| Some((Some(top.to_owned()), path.to_owned()));
        assert_eq!(read("app/src/main.rs"), found("app", "src/main.rs"));
        assert_eq!(read("app\\src\\main.rs"), found("app", "src/main.rs"));
        assert_eq!(read("app/.git/config"), found("app", ".git/config"));
        assert_eq!(read("我的/文件.txt"), found("我的", "文件.txt"));
        assert_eq!(read("a b.txt"), Some((None, "a b.txt".to_owned())));
        assert_eq!(read("..."), Some((None, "...".to_owned())), "a name like any other");
    }

    #[test]
    fn p7_hostile_file_names_are_refused_and_quoted() {
        let long = "x".repeat(256);
        for bad in [
            "..",
            ".",
            "../x",
            "a/../x",
            "a/../../x",
            "a/..",
            "/etc/passwd",
            "//x",
            "\\\\host\\x",
            "C:\\x",
            "c:x",
            "a//b",
            "a/",
            "a/./b",
            "..\\x",
            "a\\..\\..\\x",
            "a/b\0c",
            "a/b\nc",
            "a/\u{85}",
            &long,
            &"a/".repeat(3_000),
        ] {
            let refused = upload_path(Some(bad)).expect_err(bad).to_string();
            assert!(refused.contains("file name"), "{refused}");
        }
        assert!(
            upload_path(Some("a/../x")).expect_err("refused").to_string().contains("'a/../x'"),
            "it is named"
        );
        assert!(upload_path(None).is_err() && upload_path(Some("")).is_err());
    }

    proptest! {
        #[test]
        fn p7_an_accepted_upload_path_never_leads_outside(name in "[a./\\\\: \\x00]{0,12}") {
            if let Some((_, path)) = read(&name) {
                prop_assert!(!path.is_empty() && !path.starts_with('/') && !path.contains('\\'));
                prop_assert!(path.split('/').all(|part| !matches!(part, "" | "." | "..")));
            }
        }
    }
}
