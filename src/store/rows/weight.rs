//! Approximate sizes of writes, which bound what waits in memory.

use crate::domain::event::{EngineMark, Event, Record};
use crate::domain::id::UserId;
use crate::domain::job::JobSpec;
use crate::domain::message::Message;
use crate::ports::{NewItems, NewJob, NewWork};
use std::collections::BTreeMap;

/// The weight of a write that carries no text, bytes.
pub(crate) const BASE_WEIGHT: usize = 256;

/// Approximate size of a record.
pub(crate) fn record_bytes(record: &Record) -> usize {
    let text = match record {
        Record::Event(Event::Delta { text, .. }) => text.len(),
        Record::Event(Event::ToolCall { call, .. }) => call.arguments.len(),
        Record::Event(Event::ToolResult { content, .. } | Event::Summary { content, .. })
        | Record::Mark(EngineMark::ToolFinished { content, .. } | EngineMark::ToolWhole { content, .. }) => {
            content.len()
        }
        Record::Mark(EngineMark::ModelFinished { echo: Some(echo), .. }) => echo.parts.to_string().len(),
        Record::Mark(EngineMark::Instructions { texts, results }) => {
            texts.iter().chain(results.values()).map(String::len).fold(0, usize::saturating_add)
        }
        _ => 0,
    };
    text.saturating_add(BASE_WEIGHT / 2)
}

/// Approximate weight of a request, bytes.
pub(crate) fn spec_bytes(spec: &JobSpec) -> usize {
    let input = spec.input.iter().map(Message::bytes).sum::<usize>();
    input.saturating_add(spec.system_prompt.as_ref().map_or(0, String::len))
}

/// The work of these jobs, by user, as quotas count it.
pub(crate) fn work_by_user(jobs: &[NewJob]) -> BTreeMap<UserId, NewWork> {
    let mut work: BTreeMap<UserId, NewWork> = BTreeMap::new();
    for job in jobs {
        let new = work.entry(job.user).or_insert(NewWork::bytes(0));
        let bytes = u64::try_from(spec_bytes(&job.spec)).unwrap_or(u64::MAX);
        *new = NewWork { jobs: new.jobs.saturating_add(1), bytes: new.bytes.saturating_add(bytes) };
    }
    work
}

/// Approximate bytes that items add to the store.
pub(crate) fn items_bytes(new: &NewItems) -> usize {
    let items = new.items.iter().map(|item| item.to_string().len()).sum::<usize>();
    items.saturating_add(new.messages.iter().map(Message::bytes).sum())
}

/// Bytes of the images of these messages, each counted as often as it is there.
pub(crate) fn image_bytes(messages: &[Message]) -> usize {
    let bytes: u64 = messages.iter().flat_map(Message::images).map(|image| image.bytes).sum();
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
