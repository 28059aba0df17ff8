//! Rendered pages that the readers of a job share: readers that wait for the same event read and render it
//! once. Each stream checks for itself who may read.

use super::frame::{FrameRenderer, RenderPosition, StepText};
use crate::domain::id::JobId;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The most pages kept for a job. Readers of one job are at few positions at a time.
const JOB_PAGES: usize = 4;
/// The most bytes of frames kept for a job.
const JOB_PAGES_BYTES: usize = 64 * 1024;

/// The pages of all jobs that have readers.
#[derive(Debug, Default)]
pub(crate) struct SharedPages(Mutex<HashMap<JobId, Weak<JobPages>>>);

impl SharedPages {
    /// The pages of this job. They are dropped with their last reader.
    pub(crate) fn of(self: &Arc<Self>, job: JobId) -> Arc<JobPages> {
        let mut jobs = self.lock();
        if let Some(pages) = jobs.get(&job).and_then(Weak::upgrade) {
            return pages;
        }
        let pages = Arc::new(JobPages { job, jobs: Arc::clone(self), newest_last: Mutex::default() });
        jobs.insert(job, Arc::downgrade(&pages));
        pages
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Weak<JobPages>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The newest pages of one job.
#[derive(Debug)]
pub(crate) struct JobPages {
    job: JobId,
    jobs: Arc<SharedPages>,
    newest_last: Mutex<VecDeque<(RenderPosition, SharedPage)>>,
}

impl Drop for JobPages {
    fn drop(&mut self) {
        let mut jobs = self.jobs.lock();
        // A new reader may have made new ones.
        if jobs.get(&self.job).is_some_and(|pages| pages.strong_count() == 0) {
            jobs.remove(&self.job);
        }
    }
}

/// A page as each of its readers gets it.
#[derive(Debug, Clone)]
pub(crate) struct SharedPage {
    pub(crate) frames: Bytes,
    /// The last event in it.
    pub(crate) cursor: u64,
    /// The newest event of the log when the page was read.
    pub(crate) last_seq: u64,
    /// The last event ends the stream.
    pub(crate) is_end: bool,
    /// The text of the step that the page ends in.
    pub(crate) step: Option<Arc<StepText>>,
}

/// How a reader uses the pages that it shares with others.
#[derive(Debug)]
pub(crate) struct PageSharing {
    pages: Arc<JobPages>,
    /// The newest event that the reader has heard of.
    newest: u64,
}

impl PageSharing {
    /// `None`: nobody else reads this job.
    pub(crate) fn new(pages: &Arc<JobPages>, newest: u64) -> Option<Self> {
        (Arc::strong_count(pages) > 1).then(|| Self { pages: Arc::clone(pages), newest })
    }

    /// The page that follows what the renderer has rendered, if it has all events up to the newest one or is
    /// full. The renderer continues behind it.
    pub(crate) fn find(&self, renderer: &mut FrameRenderer) -> Option<SharedPage> {
        let start = renderer.position()?;
        let page = {
            let pages = self.lock();
            let (_, page) = pages.iter().find(|(found, _)| *found == start)?;
            page.clone()
        };
        if page.cursor < self.newest && page.cursor == page.last_seq {
            return None;
        }
        renderer.skip_to(page.cursor, page.step.clone());
        Some(page)
    }

    /// Keeps a page for the other readers.
    pub(crate) fn put(&self, start: RenderPosition, page: SharedPage) {
        let mut pages = self.lock();
        pages.retain(|(found, _)| *found != start);
        pages.push_back((start, page));
        let mut bytes: usize = pages.iter().map(|(_, page)| page.frames.len()).sum();
        while pages.len() > JOB_PAGES || bytes > JOB_PAGES_BYTES {
            let Some((_, oldest)) = pages.pop_front() else { return };
            bytes = bytes.saturating_sub(oldest.frames.len());
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(RenderPosition, SharedPage)>> {
        self.pages.newest_last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::StreamFormat;
    use super::super::frame::TextMode;
    use super::*;

    fn renderer(after: u64) -> FrameRenderer {
        FrameRenderer::new(StreamFormat::Sse, TextMode::Delta).after(after)
    }

    fn page(cursor: u64, last_seq: u64, bytes: usize) -> SharedPage {
        SharedPage { frames: vec![b'x'; bytes].into(), cursor, last_seq, is_end: false, step: None }
    }

    fn put(sharing: &PageSharing, after: u64, page: SharedPage) {
        sharing.put(renderer(after).position().expect("a start"), page);
    }

    fn cursor(sharing: &PageSharing, after: u64) -> Option<u64> {
        sharing.find(&mut renderer(after)).map(|page| page.cursor)
    }

    #[test]
    fn a_page_is_shared_unless_a_newer_event_would_fit_in() {
        let registry = Arc::<SharedPages>::default();
        let (pages, _other) = (registry.of(JobId::from_bits(1)), registry.of(JobId::from_bits(1)));
        let sharing = |newest| PageSharing::new(&pages, newest).expect("two readers");
        put(&sharing(7), 5, page(7, 7, 1));
        assert_eq!([cursor(&sharing(7), 5), cursor(&sharing(6), 5)], [Some(7); 2]);
        assert_eq!(cursor(&sharing(8), 5), None, "event 8 is not in it");
        assert_eq!(cursor(&sharing(7), 6), None, "another position");
        put(&sharing(9), 5, page(7, 9, 1));
        assert_eq!(cursor(&sharing(9), 5), Some(7), "a full page");
        let mut reader = renderer(5);
        sharing(9).find(&mut reader).expect("the page");
        let start = reader.position().expect("a start");
        assert_eq!((start.after, start.resumed_after), (7, None), "it continues behind the page");
    }

    #[test]
    fn p8_the_shared_pages_of_a_job_are_bounded_and_end_with_its_readers() {
        let registry = Arc::<SharedPages>::default();
        let (one, two) = (registry.of(JobId::from_bits(1)), registry.of(JobId::from_bits(1)));
        let sharing = PageSharing::new(&one, 0).expect("two readers");
        for after in 0..10 {
            put(&sharing, after, page(after + 1, after + 1, 1));
        }
        assert_eq!(sharing.lock().len(), JOB_PAGES);
        put(&sharing, 10, page(11, 11, JOB_PAGES_BYTES));
        assert_eq!(sharing.lock().len(), 1, "the large one alone");
        put(&sharing, 11, page(12, 12, JOB_PAGES_BYTES + 1));
        assert!(sharing.lock().is_empty(), "too large to keep");
        drop((sharing, two));
        assert!(PageSharing::new(&one, 0).is_none(), "one reader shares nothing");
        drop(one);
        assert!(registry.lock().is_empty());
    }
}
