//! Text and images of a user's message in the order in which the user put them. The message keeps one text;
//! each image knows where it stands in it.

use super::attachment::Attachment;
use super::image::Image;
use super::message::Message;
use std::borrow::Cow;

/// A part of a message, as a model reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserPart<'a> {
    /// Text; never empty.
    Text(Cow<'a, str>),
    /// An image.
    Image(&'a Image),
}

/// The parts of a message: the text with the images that stand in it, the files, the other images.
pub fn in_order<'a>(content: &'a str, attachments: &[Attachment], images: &'a [Image]) -> Vec<UserPart<'a>> {
    let (mut parts, mut last) = (Vec::new(), Vec::new());
    let (mut rest, mut at) = (content, 0_usize);
    for image in images {
        let ahead = image.text_offset_bytes.and_then(|offset| offset.checked_sub(at));
        let Some((before, behind)) = ahead.and_then(|ahead| rest.split_at_checked(ahead)) else {
            last.push(UserPart::Image(image));
            continue;
        };
        if !before.is_empty() {
            parts.push(UserPart::Text(before.into()));
        }
        parts.push(UserPart::Image(image));
        (rest, at) = (behind, at.saturating_add(before.len()));
    }
    let end = if attachments.is_empty() {
        Cow::Borrowed(rest)
    } else {
        Cow::Owned(Message::user_text(rest, attachments))
    };
    if !end.is_empty() {
        parts.push(UserPart::Text(end));
    }
    parts.append(&mut last);
    parts
}

/// Text and images of a message that is read part by part.
#[derive(Debug, Default)]
pub struct UserPartsBuilder {
    text: String,
    images: Vec<Image>,
}

impl UserPartsBuilder {
    /// Adds a text. The separator stands between texts that have no image between them.
    pub fn text(&mut self, separator: &str, text: &str) {
        let is_after_image =
            self.images.last().is_some_and(|image| image.text_offset_bytes == Some(self.text.len()));
        if !self.text.is_empty() && !is_after_image {
            self.text.push_str(separator);
        }
        self.text.push_str(text);
    }

    /// Adds an image.
    pub fn image(&mut self, image: Image) {
        self.images.push(Image { text_offset_bytes: Some(self.text.len()), ..image });
    }

    /// The whole text, and the images.
    pub fn finish(self) -> (String, Vec<Image>) {
        let Self { text, mut images } = self;
        for image in &mut images {
            image.text_offset_bytes = image.text_offset_bytes.filter(|offset| *offset < text.len());
        }
        (text, images)
    }
}

/// Images in results of tools. Results are texts, and not every provider takes images in them, so they follow
/// the results of an answer in a message of the user.
#[derive(Debug, Default)]
pub struct ResultImages(UserPartsBuilder);

impl ResultImages {
    /// Adds the images in a result of this tool.
    pub fn add(&mut self, tool: &str, images: Vec<Image>) {
        for image in images {
            self.0.text("\n\n", &format!("An image in the result of {tool}:\n"));
            self.0.image(image);
        }
    }

    /// The message with the images so far, if there are any.
    pub fn take(&mut self) -> Option<Message> {
        let (content, images) = std::mem::take(&mut self.0).finish();
        (!images.is_empty()).then(|| Message::User { content, attachments: Vec::new(), images })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::image::ImageType;
    use crate::domain::stored_file::ContentDigest;
    use proptest::prelude::*;

    fn image(number: u8, text_offset_bytes: Option<usize>) -> Image {
        Image {
            media_type: ImageType::Png,
            content: ContentDigest::from_bytes([number; 32]),
            bytes: 3,
            name: None,
            detail: None,
            text_offset_bytes,
            data: None,
        }
    }

    /// The parts as texts; an image is its number.
    fn told(content: &str, attachments: &[Attachment], images: &[Image]) -> Vec<String> {
        let tell = |part: UserPart<'_>| match part {
            UserPart::Text(text) => text.into_owned(),
            UserPart::Image(image) => format!("#{}", image.content.to_bytes()[0]),
        };
        in_order(content, attachments, images).into_iter().map(tell).collect()
    }

    #[test]
    fn images_without_a_place_follow_text_and_files() {
        let file = Attachment { name: "a".into(), extension: String::new(), content: "x".into() };
        let parts = told("look", &[file], &[image(1, None), image(2, Some(2))]);
        assert_eq!(parts, ["lo", "#2", "ok\n\nAttached file `a`:\n```\nx\n```", "#1"]);
        assert_eq!(told("look", &[], &[image(1, None)]), ["look", "#1"]);
    }

    #[test]
    fn a_place_that_cannot_be_is_the_end() {
        assert_eq!(told("汉", &[], &[image(1, Some(1)), image(2, Some(9))]), ["汉", "#1", "#2"]);
        assert_eq!(told("look", &[], &[image(1, Some(2)), image(2, Some(1))]), ["lo", "#1", "ok", "#2"]);
    }

    proptest! {
        #[test]
        fn parts_keep_their_order(given in proptest::collection::vec(proptest::option::of("[a-c汉]{1,3}"), 0..9)) {
            let (mut builder, mut expected, mut number) = (UserPartsBuilder::default(), Vec::<String>::new(), 0);
            let mut is_text = false;
            for part in given {
                is_text = if let Some(text) = part {
                    builder.text("|", &text);
                    match expected.last_mut().filter(|_| is_text) {
                        Some(last) => *last = format!("{last}|{text}"),
                        None => expected.push(text),
                    }
                    true
                } else {
                    number += 1;
                    builder.image(image(number, None));
                    expected.push(format!("#{number}"));
                    false
                };
            }
            let (text, images) = builder.finish();
            prop_assert_eq!(told(&text, &[], &images), expected);
        }
    }
}
