//! Finds the encoding of a text file by name and by its first bytes. It does not guess between similar
//! encodings.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// The encoding of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileDecoding {
    /// Its encoding.
    pub(super) encoding: &'static Encoding,
    /// The length of its byte order mark.
    pub(super) mark_bytes: u64,
    /// Whether another one may be tried, because the call did not name it.
    pub(super) is_guess: bool,
}

impl FileDecoding {
    /// Decodes any bytes.
    pub(super) const FALLBACK: Self = Self { encoding: WINDOWS_1252, mark_bytes: 0, is_guess: false };

    /// From the requested name, if any, and the first bytes.
    pub(super) fn of(requested: Option<&str>, head: &[u8]) -> Result<Self, String> {
        let requested = requested.map(named).transpose()?;
        let mark = Encoding::for_bom(head).filter(|(marked, _)| {
            requested.is_none_or(|requested| requested == *marked || is_wide(requested) && is_wide(marked))
        });
        let (encoding, mark_bytes) = mark.unwrap_or((requested.unwrap_or(UTF_8), 0));
        Ok(Self { encoding, mark_bytes: mark_bytes as u64, is_guess: requested.is_none() && mark_bytes == 0 })
    }

    /// Whether NUL bytes are part of its text.
    pub(super) fn is_wide(self) -> bool {
        is_wide(self.encoding)
    }

    /// Its name, which a call may request.
    pub(super) fn name(self) -> String {
        match self.encoding.name() {
            "windows-1252" => "latin-1".to_owned(),
            other => other.to_ascii_lowercase(),
        }
    }
}

fn is_wide(encoding: &Encoding) -> bool {
    encoding == UTF_16LE || encoding == UTF_16BE
}

/// Finds an encoding by its name on the web or in Python.
fn named(label: &str) -> Result<&'static Encoding, String> {
    let label = label.trim().to_ascii_lowercase().replace('_', "-");
    let web_name = match label.as_str() {
        "latin-1" | "iso8859-1" => "latin1",
        "utf-8-sig" => "utf-8",
        "cp936" => "gbk",
        "cp932" => "shift_jis",
        "cp949" => "euc-kr",
        "cp950" => "big5",
        other => other,
    };
    Encoding::for_label_no_replacement(web_name.as_bytes()).ok_or_else(|| {
        let label: String = label.chars().take(40).collect();
        format!("'{label}' is no encoding that is known here: use utf-8, utf-16, latin-1, gbk, gb18030, big5, shift_jis, euc-kr, windows-1251 …")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoding(requested: Option<&str>, head: &[u8]) -> (String, u64) {
        FileDecoding::of(requested, head).map(|found| (found.name(), found.mark_bytes)).expect("an encoding")
    }

    #[test]
    fn the_encoding_follows_the_name_and_the_byte_order_mark() {
        for (requested, head, name, mark) in [
            (None, &b"abc"[..], "utf-8", 0),
            (None, b"\xEF\xBB\xBFabc", "utf-8", 3),
            (None, b"\xFF\xFEa\0", "utf-16le", 2),
            (None, b"\xFE\xFF\0a", "utf-16be", 2),
            (Some("utf-16"), b"\xFE\xFF\0a", "utf-16be", 2),
            (Some("UTF_16"), b"a\0", "utf-16le", 0),
            (Some("latin-1"), b"\xEF\xBB\xBF", "latin-1", 0),
            (Some("Latin1"), b"", "latin-1", 0),
            (Some("GBK"), b"", "gbk", 0),
            (Some("cp936"), b"", "gbk", 0),
            (Some("utf-8-sig"), b"\xEF\xBB\xBF", "utf-8", 3),
        ] {
            assert_eq!(decoding(requested, head), (name.to_owned(), mark), "{requested:?} {head:?}");
        }
        assert!(
            FileDecoding::of(Some("klingon"), b"").expect_err("unknown").contains("'klingon' is no encoding")
        );
        assert!(FileDecoding::of(Some("replacement"), b"").is_err());
        assert!(FileDecoding::of(None, b"a").expect("a plan").is_guess);
        assert!(!FileDecoding::of(Some("utf-8"), b"a").expect("a plan").is_guess);
    }
}
