//! Puts the bytes of images into requests. Models that see none read a note in their place.

use crate::domain::image::Image;
use crate::domain::message::Message;
use crate::domain::user_parts::{self, UserPart};
use crate::ports::{
    CancelToken, ChunkSink, Completion, Contents, ForwardOutcome, ForwardRequest, ForwardSink, Model,
    ModelError, ModelHealth, ModelInfo, ModelRequest, StoreError,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::sync::Arc;

/// Delay of a job whose images this node does not see, milliseconds.
const OTHER_NODE_MS: u64 = 5_000;
/// What a model that sees no images reads in place of each.
const NOTE: &str = "(The user sent an image here. You cannot see it.)";

/// A model whose requests name images by their digest.
pub struct ImageLoader {
    model: Arc<dyn Model>,
    contents: Arc<dyn Contents>,
}

impl ImageLoader {
    /// Reads images from `contents`.
    pub fn new(model: Arc<dyn Model>, contents: Arc<dyn Contents>) -> Self {
        Self { model, contents }
    }

    fn load(&self, message: &mut Message, sees: bool) -> Result<(), ModelError> {
        let Message::User { content, images, .. } = message else { return Ok(()) };
        if !sees {
            let parts = user_parts::in_order(content, &[], images).into_iter();
            let texts = parts.map(|part| match part {
                UserPart::Text(text) => text,
                UserPart::Image(_) => NOTE.into(),
            });
            *content = texts.collect::<Vec<_>>().join("\n\n");
            images.clear();
        }
        images.iter_mut().filter(|image| image.data.is_none()).try_for_each(|image| {
            image.data = Some(self.read(image)?);
            Ok(())
        })
    }

    fn read(&self, image: &Image) -> Result<Arc<[u8]>, ModelError> {
        let failed = |reason: String| ModelError::Refused(format!("an image cannot be read: {reason}"));
        let read = self.contents.read(image.content, image.bytes);
        let bytes = read.map_err(|error| match error {
            // The job goes back to the queue: another node may have the files.
            StoreError::FilesUnavailable(message) => {
                ModelError::Busy { message, retry_after_ms: OTHER_NODE_MS }
            }
            error => failed(error.to_string()),
        })?;
        Ok(Arc::from(bytes.ok_or_else(|| failed("its content is gone".to_owned()))?))
    }
}

impl Model for ImageLoader {
    fn ask(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        sink: ChunkSink<'_>,
    ) -> Result<Completion, ModelError> {
        if !Message::have_images(&request.messages) {
            return self.model.ask(request, cancel, sink);
        }
        let sees = self.model(&request.model).is_some_and(|model| model.sees_images);
        let mut request = request.clone();
        request.messages.iter_mut().try_for_each(|message| self.load(message, sees))?;
        self.model.ask(&request, cancel, sink)
    }

    fn forward(
        &self,
        request: &ForwardRequest,
        cancel: &CancelToken,
        sink: ForwardSink<'_>,
    ) -> ForwardOutcome {
        self.model.forward(request, cancel, sink)
    }

    fn health(&self, now_ms: u64) -> Vec<ModelHealth> {
        self.model.health(now_ms)
    }

    fn models(&self) -> Vec<ModelInfo> {
        self.model.models()
    }

    fn model(&self, id: &str) -> Option<ModelInfo> {
        self.model.model(id)
    }
}

/// The bytes of an image in base64; `None` if they were not loaded.
pub(super) fn base64(image: &Image) -> Option<String> {
    image.data.as_ref().map(|data| STANDARD.encode(data))
}
