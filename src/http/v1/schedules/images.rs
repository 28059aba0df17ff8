//! Images in the request of a schedule, as its client wrote it. The stored request names each by its digest;
//! whoever reads it gets a data URL.

use crate::domain::image::Image;
use crate::domain::message::Message;
use crate::http::request::image;
use crate::http::v1::jobs::spec::input::is_image;
use crate::ports::{Contents, StoreError};
use serde_json::{Map, Value, json};

/// The field that stands in place of `content`. No client can write it.
const NAMED: &str = "image";

/// Puts names in place of the contents of images. `read` are the messages of the request.
pub(super) fn name_all(given: &mut Map<String, Value>, read: &[Message]) {
    let mut images = read.iter().flat_map(Message::images);
    for file in attachments(given).filter(|file| is_image_file(file)) {
        if let Some(image) = images.next() {
            file.remove("content");
            file.insert(NAMED.to_owned(), json!(image));
        }
    }
}

/// Puts data URLs in place of the names. Blocks.
pub(super) fn put_back(given: &mut Map<String, Value>, contents: &dyn Contents) -> Result<(), StoreError> {
    for file in attachments(given) {
        let Some(named) = file.remove(NAMED) else { continue };
        let url = match serde_json::from_value::<Image>(named) {
            Ok(image) => image::data_url(&image, contents)?,
            Err(_) => None,
        };
        file.insert("content".to_owned(), json!(url));
    }
    Ok(())
}

fn attachments(given: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let messages = given.get_mut("input").and_then(Value::as_array_mut).into_iter().flatten();
    let files = messages.filter_map(|message| message.get_mut("attachments")?.as_array_mut()).flatten();
    files.filter_map(Value::as_object_mut)
}

fn is_image_file(file: &Map<String, Value>) -> bool {
    let text = |field: &str| file.get(field).and_then(Value::as_str).unwrap_or_default();
    is_image(text("extension"), text("content"))
}
