//! Stores the images of a request before the row that names them, and shows those of a job to its owner.

use crate::domain::id::{JobId, UserId};
use crate::domain::image::Image;
use crate::domain::message::Message;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::middleware::revocation;
use crate::http::request::context::RequestContext;
use crate::http::response::file_body::FileBody;
use crate::http::response::{self, HandlerResult};
use crate::ports::{Contents, PinnedContent, Store, StoreError};
use hyper::StatusCode;
use hyper::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use std::sync::Arc;

/// `GET /v1/jobs/{id}/images/{n}`: an image of the job's input, counted from 0. A page that a browser shows
/// never runs what it holds.
pub(crate) async fn show(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let (id, user): (JobId, _) = (request.id("job")?, request.user);
    let number = request.segment("n").parse::<usize>().map_err(|_| ApiError::NotFound("image"));
    let images = context
        .read(user, move |store| images_of(store, user, id))
        .await?
        .ok_or(ApiError::NotFound("job"))?;
    let image = images.into_iter().nth(number?).ok_or(ApiError::NotFound("image"))?;
    let contents = Arc::clone(&context.app.contents);
    let opened = context.app.blocking(user, move || contents.open(image.content)).await??;
    let opened = opened.filter(|file| file.metadata().is_ok_and(|found| found.len() == image.bytes));
    let signal = revocation::signal(context, request.caller);
    let body = opened.ok_or_else(missing_content).and_then(|file| {
        FileBody::new(context.app.threads_of(user), file, signal, None).map_err(|error| {
            tracing::error!(job = %id, %error, "an image cannot be read");
            ApiError::Internal
        })
    });
    let mut response = response::file(body?);
    response::set(&mut response, CONTENT_TYPE, image.media_type.as_str());
    let name = image.name.as_deref().map_or_else(|| image.media_type.file_name(), file_name);
    response::set(&mut response, CONTENT_DISPOSITION, &format!("inline; filename=\"{name}\""));
    Ok(response)
}

/// Where [`show`] shows an image.
pub(crate) fn path(job: JobId, number: usize) -> String {
    format!("/v1/jobs/{job}/images/{number}")
}

/// The images of a job of this user (P7); none when its question was deleted.
fn images_of(store: &dyn Store, user: UserId, id: JobId) -> Result<Option<Vec<Image>>, StoreError> {
    let Some(job) = store.job(user, id)? else { return Ok(None) };
    let spec = if job.input.is_some() { store.request(user, id)? } else { None };
    let messages = spec.map(|spec| spec.input).unwrap_or_default();
    Ok(Some(messages.iter().flat_map(Message::images).cloned().collect()))
}

/// The name with characters that every header can hold.
fn file_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " .-_()".contains(c);
    name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

fn missing_content() -> ApiError {
    let message = "the content of this image is not on the server's disk any more: a restored backup has only \
                   the entry, not the content";
    ApiError::Refused { status: StatusCode::GONE, code: "content_missing", message: message.to_owned() }
}

/// Stores the images and takes their bytes out of the messages. They are not removed while the returned value
/// lives.
pub(crate) async fn store(
    context: &Arc<ServerContext>,
    user: UserId,
    messages: &mut Vec<Message>,
) -> Result<Vec<PinnedContent>, ApiError> {
    if !Message::have_images(messages) {
        return Ok(Vec::new());
    }
    let contents = Arc::clone(&context.app.contents);
    let mut taken = std::mem::take(messages);
    let storing = context.app.blocking(user, move || {
        let pins = store_now(&*contents, &mut taken)?;
        Ok::<_, ApiError>((taken, pins))
    });
    let (stored, pins) = storing.await??;
    *messages = stored;
    Ok(pins)
}

/// The same. Blocks.
pub(crate) fn store_now(
    contents: &dyn Contents,
    messages: &mut [Message],
) -> Result<Vec<PinnedContent>, ApiError> {
    let mut pins = Vec::new();
    for message in messages {
        if let Message::User { images, .. } = message {
            for image in images {
                pins.push(store_one(contents, image)?);
            }
        }
    }
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
