//! References to the answers of other jobs: `{{result:JOB_ID}}` in the text of a message or in the system
//! prompt. The prompt shows the answer in its place; the stored request keeps the reference.

use super::id::JobId;
use super::message::Message;
use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum references of a job, and of the history that it gets.
pub const RESULT_REFERENCES: usize = 64;

const OPEN: &str = "{{result:";
const CLOSE: &str = "}}";
/// Length of a job's id.
const ID_BYTES: usize = JobId::PREFIX.len() + 26;

/// A reference in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ResultReference {
    bytes: Range<usize>,
    job: JobId,
}

/// The references in a text, in order. What only looks like one is text.
fn references(text: &str) -> impl Iterator<Item = ResultReference> {
    text.match_indices(OPEN).filter_map(|(start, _)| {
        let id_start = start.saturating_add(OPEN.len());
        let id_end = id_start.saturating_add(ID_BYTES);
        let name = text.get(id_start..id_end)?;
        let job: JobId = name.parse().ok()?;
        let end = id_end.saturating_add(CLOSE.len());
        // Other spellings of an id are text.
        (text.get(id_end..end)? == CLOSE && job.to_string() == name)
            .then_some(ResultReference { bytes: start..end, job })
    })
}

/// The text in which references may stand.
fn text_of(message: &Message) -> Option<&str> {
    match message {
        Message::System { content } | Message::User { content, .. } => Some(content),
        Message::Assistant { .. } | Message::Tool { .. } => None,
    }
}

/// The jobs that a text refers to, in order, repeated ones too.
pub fn referenced_in(text: &str) -> impl Iterator<Item = JobId> {
    references(text).map(|reference| reference.job)
}

/// The same of system and user messages.
pub fn referenced_jobs(messages: &[Message]) -> impl Iterator<Item = JobId> {
    messages.iter().filter_map(text_of).flat_map(referenced_in)
}

/// The text with answers in the place of references.
pub fn text_with_results(text: &str, answers: &BTreeMap<JobId, String>) -> String {
    Replaced::of(text, answers).text
}

/// Puts answers in the place of references. A reference to a job without an answer here stays, and so does
/// one inside an answer.
pub fn with_results(messages: Vec<Message>, answers: &BTreeMap<JobId, String>) -> Vec<Message> {
    let replace = |message| match message {
        Message::System { content } => Message::System { content: text_with_results(&content, answers) },
        Message::User { content, attachments, mut images } => {
            let replaced = Replaced::of(&content, answers);
            for offset in images.iter_mut().filter_map(|image| image.text_offset_bytes.as_mut()) {
                *offset = replaced.moved(*offset);
            }
            Message::User { content: replaced.text, attachments, images }
        }
        other => other,
    };
    messages.into_iter().map(replace).collect()
}

/// A text with answers in it.
struct Replaced {
    text: String,
    /// Where each reference ended, and where its answer ends.
    ends: Vec<(usize, usize)>,
}

impl Replaced {
    fn of(text: &str, answers: &BTreeMap<JobId, String>) -> Self {
        let mut replaced = Self { text: String::with_capacity(text.len()), ends: Vec::new() };
        let mut done = 0;
        for ResultReference { bytes, job } in references(text) {
            let Some(answer) = answers.get(&job) else { continue };
            replaced.text.push_str(text.get(done..bytes.start).unwrap_or_default());
            replaced.text.push_str(answer);
            done = bytes.end;
            replaced.ends.push((done, replaced.text.len()));
        }
        replaced.text.push_str(text.get(done..).unwrap_or_default());
        replaced
    }

    /// The new position of what stood at this one, outside of a reference.
    fn moved(&self, offset: usize) -> usize {
        let before = self.ends.iter().rev().find(|(old, _)| *old <= offset);
        before.map_or(offset, |(old, new)| new.saturating_add(offset.saturating_sub(*old)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::image::{Image, ImageType};
    use crate::domain::stored_file::ContentDigest;

    fn job(bits: u128) -> JobId {
        JobId::from_bits(bits)
    }

    fn reference(bits: u128) -> String {
        format!("{{{{result:{}}}}}", job(bits))
    }

    fn shown(text: &str, answers: &[(u128, &str)]) -> String {
        let answers = answers.iter().map(|(bits, text)| (job(*bits), (*text).to_owned())).collect();
        match with_results(vec![Message::user(text)], &answers).remove(0) {
            Message::User { content, .. } => content,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn answers_stand_where_the_references_stood() {
        let text = format!("汉 {} and {}{}!", reference(1), reference(2), reference(1));
        assert_eq!(shown(&text, &[(1, "one"), (2, "")]), "汉 one and one!");
        assert_eq!(referenced_jobs(&[Message::user(text)]).collect::<Vec<_>>(), [job(1), job(2), job(1)]);
    }

    #[test]
    fn what_only_looks_like_a_reference_is_text() {
        let id = job(1).to_string();
        for text in [
            format!("{{{{result:{}}}}}", job(31).to_string().to_lowercase()),
            format!("{{{{result:{id}}}"),
            format!("{{{{result: {id}}}}}"),
            format!("{{{{result:{}汉}}}}", &id[..id.len() - 1]),
            "{{result:".to_owned(),
            "{{result:job_}}".to_owned(),
        ] {
            assert_eq!(shown(&text, &[(1, "one")]), text);
            assert_eq!(referenced_jobs(&[Message::user(text)]).count(), 0);
        }
        let inside = format!("{{{{result:{}", reference(1));
        assert_eq!(shown(&inside, &[(1, "one")]), "{{result:one");
    }

    #[test]
    fn a_reference_inside_an_answer_is_not_followed() {
        let answer = format!("see {}", reference(2));
        assert_eq!(shown(&reference(1), &[(1, &answer), (2, "secret")]), answer);
        assert_eq!(shown(&reference(3), &[(1, "one")]), reference(3));
    }

    #[test]
    fn answers_of_models_and_tools_are_left_alone() {
        let message = Message::assistant(reference(1));
        let answers = BTreeMap::from([(job(1), "one".to_owned())]);
        assert_eq!(with_results(vec![message.clone()], &answers), std::slice::from_ref(&message));
        assert_eq!(referenced_jobs(&[message]).count(), 0);
    }

    #[test]
    fn images_keep_their_place_in_the_text() {
        let text = format!("ab{}cd", reference(1));
        let image = |offset| Image {
            media_type: ImageType::Png,
            content: ContentDigest::from_bytes([1; 32]),
            bytes: 3,
            name: None,
            detail: None,
            text_offset_bytes: Some(offset),
            data: None,
        };
        let images = vec![image(1), image(text.len() - 1)];
        let message = Message::User { content: text, attachments: Vec::new(), images };
        let answers = BTreeMap::from([(job(1), "answer".to_owned())]);
        let shown = with_results(vec![message], &answers);
        let offsets: Vec<_> = shown[0].images().iter().map(|image| image.text_offset_bytes).collect();
        assert_eq!(offsets, [Some(1), Some("abanswerc".len())]);
    }
}
