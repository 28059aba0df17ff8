//! Encodings of files: finds that of a text file by name and by its first bytes, and encodes texts to write.
//! It does not guess between similar encodings.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// The byte order mark of UTF-8.
const BYTE_ORDER_MARK: &str = "\u{feff}";

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

/// How a tool turns a text into the bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileEncoding {
    /// UTF-8; with a byte order mark at the beginning of the file, if asked for.
    Utf8 { has_mark: bool },
    /// The text is base64 of the bytes.
    Base64,
    /// UTF-16, little-endian unless the file says otherwise; with a byte order mark, if asked for.
    Utf16 { is_big: bool, has_mark: bool },
    /// Another encoding of texts.
    Other(&'static Encoding),
}

impl FileEncoding {
    /// The encoding of this name; UTF-8 without one.
    pub(super) fn of(label: Option<&str>) -> Result<Self, String> {
        let label =
            label.map(|label| label.trim().to_ascii_lowercase().replace('_', "-")).unwrap_or_default();
        match label.as_str() {
            "" => Ok(Self::Utf8 { has_mark: false }),
            "base64" => Ok(Self::Base64),
            "utf-8-sig" => Ok(Self::Utf8 { has_mark: true }),
            "utf-16" => Ok(Self::Utf16 { is_big: false, has_mark: true }),
            other => Ok(match named(other).map_err(|error| format!("{error}; base64 writes any bytes"))? {
                encoding if encoding == UTF_8 => Self::Utf8 { has_mark: false },
                encoding if is_wide(encoding) => {
                    Self::Utf16 { is_big: encoding == UTF_16BE, has_mark: false }
                }
                encoding => Self::Other(encoding),
            }),
        }
    }

    /// The bytes of a whole file.
    pub(super) fn encode(self, text: &str) -> Result<Vec<u8>, String> {
        self.append(Vec::new(), text)
    }

    /// The bytes of a file with the text at its end. Fails if the file has another encoding.
    pub(super) fn append(self, mut file: Vec<u8>, text: &str) -> Result<Vec<u8>, String> {
        let is_new = file.is_empty();
        match self {
            Self::Utf8 { has_mark } => {
                if std::str::from_utf8(&file).is_err() {
                    return Err("is not a UTF-8 text file".to_owned());
                }
                if is_new && has_mark && !text.starts_with(BYTE_ORDER_MARK) {
                    file.extend_from_slice(BYTE_ORDER_MARK.as_bytes());
                }
                file.extend_from_slice(text.as_bytes());
            }
            Self::Base64 => file.extend(base64_bytes(text)?),
            Self::Utf16 { is_big, has_mark } => {
                let is_big = is_big || file.starts_with(&[0xFE, 0xFF]);
                if file.len() % 2 == 1 {
                    return Err("is not a UTF-16 text file".to_owned());
                }
                let mark = (is_new && has_mark).then_some(0xFEFF);
                let units = mark.into_iter().chain(text.encode_utf16());
                file.extend(
                    units.flat_map(|unit| if is_big { unit.to_be_bytes() } else { unit.to_le_bytes() }),
                );
            }
            Self::Other(encoding) => {
                if encoding.decode_without_bom_handling_and_without_replacement(&file).is_none() {
                    return Err(format!("is not a {} text file", encoding.name().to_ascii_lowercase()));
                }
                let (bytes, _, has_unmappable) = encoding.encode(text);
                if has_unmappable {
                    return Err(unmappable(encoding, text));
                }
                file.extend_from_slice(&bytes);
            }
        }
        Ok(file)
    }
}

/// Base64 as models write it: with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The bytes of a base64 text. Line ends and missing padding are fine.
fn base64_bytes(text: &str) -> Result<Vec<u8>, String> {
    let compact: String = text.split_ascii_whitespace().collect();
    BASE64
        .decode(compact)
        .map_err(|error| format!("cannot be written: content is not valid base64 ({error})"))
}

/// The error for the first character that the encoding does not have.
fn unmappable(encoding: &'static Encoding, text: &str) -> String {
    let is_missing = |c: &char| encoding.encode(c.encode_utf8(&mut [0; 4])).2;
    let c = text.chars().find(is_missing).unwrap_or_default();
    let name = encoding.name().to_ascii_lowercase();
    format!("cannot be written: {name} has no character '{c}'; use utf-8")
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

    fn encoded(label: &str, text: &str) -> Result<Vec<u8>, String> {
        FileEncoding::of(Some(label)).and_then(|encoding| encoding.encode(text))
    }

    #[test]
    fn texts_are_encoded_by_name_and_unmappable_characters_are_refused() {
        assert_eq!(FileEncoding::of(None).and_then(|encoding| encoding.encode("é")), Ok("é".into()));
        assert_eq!(encoded("UTF-8", "é"), Ok("é".into()));
        assert_eq!(encoded("utf-8-sig", "a"), Ok(b"\xEF\xBB\xBFa".to_vec()));
        assert_eq!(encoded("latin-1", "é"), Ok(vec![0xE9]));
        assert_eq!(encoded("utf-16", "a"), Ok(vec![0xFF, 0xFE, b'a', 0]));
        assert_eq!(encoded("utf-16be", "a"), Ok(vec![0, b'a']));
        assert_eq!(encoded("gbk", "中"), Ok(vec![0xD6, 0xD0]));
        assert_eq!(encoded("base64", "AAH/\n/w=="), Ok(vec![0, 1, 255, 255]));
        assert_eq!(encoded("base64", "AAE"), Ok(vec![0, 1]));
        assert_eq!(encoded("base64", "TWFu\nTWE=\r\n"), Ok(b"ManMa".to_vec()));
        assert_eq!(encoded("base64", ""), Ok(Vec::new()));
        for invalid in ["A", "AAAAA", "A===", "AAA==", "AA=A", "AA-_", "é"] {
            assert!(encoded("base64", invalid).is_err(), "{invalid}");
        }
        assert!(encoded("base64", "a!b").expect_err("no base64").contains("is not valid base64"));
        assert!(encoded("latin-1", "a中").expect_err("not there").contains("has no character '中'"));
        assert!(encoded("klingon", "a").expect_err("unknown").contains("base64 writes any bytes"));
    }

    #[test]
    fn a_text_is_appended_in_the_encoding_of_the_file() {
        let append = |label: Option<&str>, file: &[u8], text: &str| {
            FileEncoding::of(label).and_then(|encoding| encoding.append(file.to_vec(), text))
        };
        assert!(append(None, b"caf\xE9", "é").expect_err("latin-1").contains("not a UTF-8 text file"));
        assert_eq!(append(Some("latin-1"), b"caf\xE9", "é"), Ok(b"caf\xE9\xE9".to_vec()));
        assert_eq!(
            append(Some("utf-16"), &[0xFE, 0xFF, 0, b'a'], "b"),
            Ok(vec![0xFE, 0xFF, 0, b'a', 0, b'b'])
        );
        assert_eq!(append(Some("base64"), &[0xFF], "AA=="), Ok(vec![0xFF, 0]));
    }
}
