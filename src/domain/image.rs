//! Images in messages of the user. Their bytes are kept outside of the store, by digest.

use super::stored_file::ContentDigest;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Formats that models read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImageType {
    /// PNG.
    #[serde(rename = "image/png")]
    Png,
    /// JPEG.
    #[serde(rename = "image/jpeg")]
    Jpeg,
    /// GIF.
    #[serde(rename = "image/gif")]
    Gif,
    /// WebP.
    #[serde(rename = "image/webp")]
    Webp,
}

impl ImageType {
    /// The format whose signature the bytes begin with.
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let is_webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP".as_slice());
        match bytes {
            _ if bytes.starts_with(b"\x89PNG\r\n\x1a\n") => Some(Self::Png),
            _ if bytes.starts_with(b"\xff\xd8\xff") => Some(Self::Jpeg),
            _ if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") => Some(Self::Gif),
            _ if is_webp => Some(Self::Webp),
            _ => None,
        }
    }

    /// The format of files with this extension.
    pub fn of_extension(extension: &str) -> Option<Self> {
        match extension.trim_start_matches('.').to_ascii_lowercase().as_str() {
            "png" => Some(Self::Png),
            "jpg" | "jpeg" => Some(Self::Jpeg),
            "gif" => Some(Self::Gif),
            "webp" => Some(Self::Webp),
            _ => None,
        }
    }

    /// The name of a file that has none.
    pub fn file_name(self) -> String {
        format!("image.{}", self.extension())
    }

    /// The usual extension of its files.
    pub fn extension(self) -> &'static str {
        self.as_str().trim_start_matches("image/")
    }

    /// Media type.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }
}

/// How closely a model looks at an image, where its provider offers a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageDetail {
    /// Few tokens.
    Low,
    /// Many tokens.
    High,
    /// Not scaled down.
    Original,
    /// The provider's choice.
    Auto,
}

/// An image of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Format.
    pub media_type: ImageType,
    /// SHA-256 of its bytes.
    pub content: ContentDigest,
    /// Length of its content, bytes.
    pub bytes: u64,
    /// File name, of an attached file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How closely the model looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<ImageDetail>,
    /// Where it stands in the text of its message; `None`: after the text and the attached files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_offset_bytes: Option<usize>,
    /// The content: present between a request and the store, and in a request to a provider. Never stored.
    #[serde(skip)]
    pub data: Option<Arc<[u8]>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_recognized_by_its_signature() {
        for (bytes, found) in [
            (b"\x89PNG\r\n\x1a\n....".as_slice(), Some(ImageType::Png)),
            (b"\xff\xd8\xff\xe0", Some(ImageType::Jpeg)),
            (b"GIF89a", Some(ImageType::Gif)),
            (b"RIFF....WEBPVP8 ", Some(ImageType::Webp)),
            (b"RIFF....WAVE", None),
            (b"<svg>", None),
            (b"", None),
        ] {
            assert_eq!(ImageType::of_bytes(bytes), found, "{bytes:?}");
        }
    }

    #[test]
    fn the_bytes_of_an_image_are_never_stored() {
        let image = Image {
            media_type: ImageType::Png,
            content: ContentDigest::from_bytes([1; 32]),
            bytes: 3,
            name: None,
            detail: None,
            text_offset_bytes: None,
            data: Some(Arc::from(b"abc".as_slice())),
        };
        let stored = serde_json::to_value(&image).expect("JSON");
        assert_eq!(
            stored,
            serde_json::json!({"media_type": "image/png", "content": image.content, "bytes": 3})
        );
    }
}
