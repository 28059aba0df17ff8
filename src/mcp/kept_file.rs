//! A file of a tool's result: its bytes, and the path under which it is kept in the files of the job.

use super::tool_names::directory_name;
use crate::domain::hex::hex;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use sha2::{Digest, Sha256};

/// Bytes of the hash in a file's name.
const HASH_BYTES: usize = 8;
/// Endings of common types.
const ENDINGS: [(&str, &str); 14] = [
    ("image/png", "png"),
    ("image/jpeg", "jpg"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("image/svg+xml", "svg"),
    ("image/bmp", "bmp"),
    ("audio/wav", "wav"),
    ("audio/mpeg", "mp3"),
    ("audio/ogg", "ogg"),
    ("video/mp4", "mp4"),
    ("application/pdf", "pdf"),
    ("application/json", "json"),
    ("application/zip", "zip"),
    ("text/plain", "txt"),
];

#[derive(Debug)]
pub(super) struct KeptFile {
    /// `mcp/<server>/<hash of the bytes>.<ending>`: the same file again is no second one.
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
}

impl KeptFile {
    /// Decodes the base64 text.
    pub(super) fn new(server: &str, mime: &str, data: &str) -> Result<Self, String> {
        let data = data.trim();
        let decoded = STANDARD.decode(data).or_else(|_| STANDARD_NO_PAD.decode(data));
        let bytes = decoded.map_err(|_| "its data is no base64".to_owned())?;
        let hash = hex(Sha256::digest(&bytes).get(..HASH_BYTES).unwrap_or_default());
        let mime = mime.split(';').next().unwrap_or_default().trim().to_lowercase();
        let ending = ENDINGS.iter().find(|(known, _)| *known == mime).map_or("bin", |(_, ending)| ending);
        Ok(Self { path: format!("mcp/{}/{hash}.{ending}", directory_name(server)), bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_file_is_named_by_server_content_and_type() {
        let kept = |mime: &str, data: &str| KeptFile::new("my server", mime, data);
        let png = kept("image/png; a=b", "eHh4").expect("kept");
        assert!(
            png.path.starts_with("mcp/my_server_") && png.path.rsplit('.').next() == Some("png"),
            "{}",
            png.path
        );
        assert_eq!(png.bytes, b"xxx");
        assert_eq!(kept("image/png", "eHh4").expect("kept").path, png.path);
        assert_ne!(kept("image/png", "eHg").expect("without padding").path, png.path);
        assert!(kept("../evil", "eHh4").expect("kept").path.rsplit('.').next() == Some("bin"));
        assert!(kept("image/png", "no base64!").is_err());
    }
}
