//! Images among input items. The stored items name each by its digest; whoever reads them gets a data URL.

use super::earlier_calls::is_result;
use super::input::{self, ItemImages, is_image, named_image};
use crate::domain::id::UserId;
use crate::domain::image::Image;
use crate::domain::limits::Limits;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::{image, member};
use crate::ports::{Contents, StoreError};
use serde_json::{Value, json};

/// The type of their parts.
const KIND: &str = "input_image";

/// Whether a part of a user's message is an image.
pub(super) fn have_images(items: &[Value]) -> bool {
    items.iter().any(|item| parts(item).any(is_image))
}

/// Takes the images out of the items, which `path` names in errors. Their parts then name them. Blocks.
pub(super) fn take(
    path: &str,
    items: &mut [Value],
    app: &AppDependencies,
    user: UserId,
) -> Result<ItemImages, ApiError> {
    let mut images = ItemImages::new();
    for (at, item) in items.iter_mut().enumerate() {
        let field = field_of(item).unwrap_or_default();
        for (index, part) in parts_mut(item).enumerate().filter(|(_, part)| is_image(part)) {
            let image = read(&format!("{path}[{at}].{field}[{index}]"), part, app, user)?;
            *part = named(&image);
            images.insert(image.content, image);
        }
    }
    Ok(images)
}

/// How many of the items a page may have, at least one: their images may be as large together as a request.
pub(super) fn fitting(items: &[Value], limit: usize, limits: &Limits) -> usize {
    let mut bytes = 0_u64;
    let fits = |item: &&Value| {
        let images = parts(item).filter_map(|part| named_image(part, &ItemImages::new()));
        bytes = images.fold(bytes, |bytes, image| bytes.saturating_add(image.bytes));
        bytes <= limits.body_bytes as u64
    };
    items.iter().take(limit).take_while(fits).count().max(1)
}

/// The part that names a stored image.
pub(super) fn named(image: &Image) -> Value {
    json!({"type": KIND, "image": image})
}

/// Puts data URLs in place of the names. Blocks.
pub(super) fn put_back<'i>(
    items: impl Iterator<Item = &'i mut Value>,
    contents: &dyn Contents,
) -> Result<(), StoreError> {
    for item in items {
        for part in parts_mut(item).filter(|part| is_image(part)) {
            let Some(image) = named_image(part, &ItemImages::new()) else { continue };
            let url = image::data_url(&image, contents)?;
            let detail = image.detail.map_or_else(|| json!("auto"), |detail| json!(detail));
            *part = json!({"type": KIND, "image_url": url, "file_id": null, "detail": detail});
        }
    }
    Ok(())
}

/// The field of an item that may hold images: of a user's message, and of a call's result.
fn field_of(item: &Value) -> Option<&'static str> {
    match input::kind(item) {
        "message" if item.get("role").and_then(Value::as_str) == Some("user") => Some("content"),
        _ if is_result(item) => Some("output"),
        _ => None,
    }
}

fn parts(item: &Value) -> impl Iterator<Item = &Value> {
    field_of(item).and_then(|field| item.get(field)?.as_array()).into_iter().flatten()
}

fn parts_mut(item: &mut Value) -> impl Iterator<Item = &mut Value> {
    let field = field_of(item);
    field.and_then(|field| item.get_mut(field)?.as_array_mut()).into_iter().flatten()
}

fn read(path: &str, part: &Value, app: &AppDependencies, user: UserId) -> Result<Image, ApiError> {
    let field = |name: &str| member::optional_text(path, part, name);
    let image = match (field("image_url")?, field("file_id")?) {
        (Some(url), None) => image::of_url(&format!("{path}.image_url"), url, &app.limits)?,
        (None, Some(id)) => image::of_file(&format!("{path}.file_id"), id, app, user)?,
        _ => {
            let text = format!("'{path}' must have one of 'image_url' and 'file_id'");
            return Err(ApiError::value(path, text));
        }
    };
    Ok(Image { detail: image::detail(&format!("{path}.detail"), part.get("detail"))?, ..image })
}
