//! Stores the images of a request before its job.

use crate::domain::image::Image;
use crate::domain::message::Message;
use crate::http::blocking::blocking;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::ports::{Contents, PinnedContent};
use std::sync::Arc;

/// Stores the images and takes their bytes out of the messages. They are not removed while the returned value
/// lives.
pub(crate) async fn store(
    context: &Arc<ServerContext>,
    messages: &mut Vec<Message>,
) -> Result<Vec<PinnedContent>, ApiError> {
    if !Message::have_images(messages) {
        return Ok(Vec::new());
    }
    let contents = Arc::clone(&context.app.contents);
    let mut taken = std::mem::take(messages);
    let storing = blocking(move || {
        let mut pins = Vec::new();
        for message in &mut taken {
            if let Message::User { images, .. } = message {
                for image in images {
                    pins.push(store_one(&*contents, image)?);
                }
            }
        }
        Ok::<_, ApiError>((taken, pins))
    });
    let (stored, pins) = storing.await??;
    *messages = stored;
    Ok(pins)
}

fn store_one(contents: &dyn Contents, image: &mut Image) -> Result<PinnedContent, ApiError> {
    let Some(data) = image.data.take() else {
        let pin = contents.pin(image.content)?;
        return pin.ok_or_else(|| ApiError::value("input", "an image of an earlier message is gone"));
    };
    let mut draft = contents.begin()?;
    draft.write(&data)?;
    Ok(draft.finish()?)
}
