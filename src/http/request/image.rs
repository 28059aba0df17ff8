//! Images in requests: base64 with a media type, data URLs, and uploaded files.

use crate::domain::id::UserId;
use crate::domain::image::{Image, ImageDetail, ImageType};
use crate::domain::limits::Limits;
use crate::domain::stored_file::ContentDigest;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::quoted::quoted;
use crate::ports::{Contents, StoreError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The image in base64. `path` names it in errors.
pub(crate) fn of_base64(
    path: &str,
    media_type: Option<&str>,
    base64: &str,
    limits: &Limits,
) -> Result<Image, ApiError> {
    let most = limits.image_bytes;
    // Before the bytes are in memory twice.
    if base64.len() / 4 * 3 > most.saturating_add(3) {
        return Err(too_large(path, most));
    }
    let bytes = STANDARD.decode(base64.as_bytes()).map_err(|_| {
        ApiError::value(path, format!("'{path}' is not base64: send the whole image, with padding"))
    })?;
    of_bytes(path, media_type, bytes, most)
}

/// The image in a data URL. Other URLs are refused: the server fetches nothing for a request.
pub(crate) fn of_url(path: &str, url: &str, limits: &Limits) -> Result<Image, ApiError> {
    let Some((head, base64)) = url.strip_prefix("data:").and_then(|rest| rest.split_once(',')) else {
        let text = format!(
            "'{path}': images of other servers are not fetched; send a data URL \
             (data:image/png;base64,…), or upload the image to /v1/files and name its file_id"
        );
        return Err(ApiError::value(path, text));
    };
    let Some(media_type) = head.strip_suffix(";base64") else {
        return Err(ApiError::value(path, format!("'{path}' must be a data URL in base64")));
    };
    of_base64(path, Some(media_type), base64, limits)
}

/// The image in an uploaded file of this user (P7). Blocks.
pub(crate) fn of_file(path: &str, id: &str, app: &AppDependencies, user: UserId) -> Result<Image, ApiError> {
    let missing = || ApiError::value(path, format!("'{path}': there is no file {}", quoted(id)));
    let found = app.files.file(user, id.parse().map_err(|_| missing())?)?.ok_or_else(missing)?;
    let most = app.limits.image_bytes;
    if found.bytes > most as u64 {
        return Err(too_large(path, most));
    }
    let bytes = app.contents.read(found.content, most as u64)?.ok_or_else(missing)?;
    of_bytes(path, None, bytes, most)
}

/// A stored image as a data URL; `None` when its content is gone. Blocks.
pub(crate) fn data_url(image: &Image, contents: &dyn Contents) -> Result<Option<String>, StoreError> {
    let bytes = contents.read(image.content, image.bytes)?;
    Ok(bytes.map(|bytes| format!("data:{};base64,{}", image.media_type.as_str(), STANDARD.encode(bytes))))
}

/// `detail` of a part.
pub(crate) fn detail(path: &str, given: Option<&Value>) -> Result<Option<ImageDetail>, ApiError> {
    let read = |given: &Value| serde_json::from_value(given.clone());
    given
        .filter(|given| !given.is_null())
        .map(read)
        .transpose()
        .map_err(|_| ApiError::value(path, format!("'{path}' must be low, high, original or auto")))
}

fn of_bytes(path: &str, named: Option<&str>, bytes: Vec<u8>, most: usize) -> Result<Image, ApiError> {
    if bytes.len() > most {
        return Err(too_large(path, most));
    }
    let Some(media_type) = ImageType::of_bytes(&bytes) else {
        return Err(ApiError::value(path, format!("'{path}' must be an image: PNG, JPEG, GIF or WebP")));
    };
    let named = named.map(|named| if named == "image/jpg" { "image/jpeg" } else { named });
    if let Some(named) = named.filter(|named| !named.eq_ignore_ascii_case(media_type.as_str())) {
        let text = format!("'{path}' names {}, but it is {}", quoted(named), media_type.as_str());
        return Err(ApiError::value(path, text));
    }
    Ok(Image {
        media_type,
        content: ContentDigest::from_bytes(Sha256::digest(&bytes).into()),
        bytes: bytes.len() as u64,
        name: None,
        detail: None,
        text_offset_bytes: None,
        data: Some(Arc::from(bytes)),
    })
}

fn too_large(path: &str, most: usize) -> ApiError {
    ApiError::value(path, format!("'{path}' is larger than limits.image_bytes = {most} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIF: &[u8] = b"GIF89a-image";

    fn url(media_type: &str, bytes: &[u8]) -> String {
        format!("data:{media_type};base64,{}", STANDARD.encode(bytes))
    }

    #[test]
    fn a_data_url_is_read_and_hashed() {
        let image = of_url("p", &url("image/gif", GIF), &Limits::default()).expect("an image");
        assert_eq!((image.media_type, image.bytes, image.data.as_deref()), (ImageType::Gif, 12, Some(GIF)));
        assert_eq!(image.content.to_bytes()[..], Sha256::digest(GIF)[..]);
    }

    #[test]
    fn p8_bad_images_are_refused_with_the_reason() {
        let limits = Limits { image_bytes: 1_024, ..Limits::default() };
        let long = [GIF, &[0; 1_020]].concat();
        for (url, words) in [
            ("https://x.test/a.png".to_owned(), "data URL"),
            ("data:image/gif,GIF89a".to_owned(), "base64"),
            ("data:image/gif;base64,!!".to_owned(), "not base64"),
            (url("image/png", GIF), "image/gif"),
            (url("image/svg+xml", b"<svg>"), "PNG, JPEG, GIF or WebP"),
            (url("image/gif", &long), "limits.image_bytes = 1024"),
            (url("image/gif", &[GIF, &[0; 9_000]].concat()), "limits.image_bytes = 1024"),
        ] {
            let error = of_url("p", &url, &limits).expect_err("refused").to_string();
            assert!(error.contains(words), "{url}: {error}");
        }
    }
}
