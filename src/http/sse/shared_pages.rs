//! The rendered pages that readers of a job's events share.

use super::frame::{FrameRenderer, RenderPosition, StepText};
use crate::domain::id::JobId;
use crate::http::shared_pages::{PageSharing, ReaderPages, SharedPage};
use bytes::Bytes;
use std::sync::Arc;

/// The pages of one job.
pub(crate) type JobPages = ReaderPages<JobId, FramePage>;

/// A page as each of its readers gets it.
#[derive(Debug, Clone)]
pub(crate) struct FramePage {
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

impl SharedPage for FramePage {
    const MOST_BYTES: usize = 64 * 1024;
    type Position = RenderPosition;

    fn bytes(&self) -> usize {
        self.frames.len()
    }

    /// A full page lacks nothing.
    fn lacks(&self, newest: u64) -> bool {
        self.cursor < newest && self.cursor == self.last_seq
    }
}

/// The page that follows what the renderer has rendered. The renderer continues behind it.
pub(super) fn find(
    sharing: &PageSharing<JobId, FramePage>,
    renderer: &mut FrameRenderer,
) -> Option<FramePage> {
    let page = sharing.find(&renderer.position()?)?;
    renderer.skip_to(page.cursor, page.step.clone());
    Some(page)
}

#[cfg(test)]
mod tests {
    use super::super::event::StreamFormat;
    use super::super::frame::TextMode;
    use super::*;
    use crate::http::shared_pages::SharedPages;

    fn renderer(after: u64) -> FrameRenderer {
        FrameRenderer::new(StreamFormat::Sse, TextMode::Delta).after(after)
    }

    fn page(cursor: u64, last_seq: u64) -> FramePage {
        FramePage { frames: Bytes::from_static(b"x"), cursor, last_seq, is_end: false, step: None }
    }

    #[test]
    fn a_page_is_shared_unless_a_newer_event_would_fit_in() {
        let registry = Arc::<SharedPages<JobId, FramePage>>::default();
        let (pages, _other) = (registry.of(JobId::from_bits(1)), registry.of(JobId::from_bits(1)));
        let sharing = |newest| PageSharing::new(&pages, Some(newest)).expect("two readers");
        let put = |page| sharing(7).put(renderer(5).position().expect("a start"), page);
        let cursor = |newest, after| find(&sharing(newest), &mut renderer(after)).map(|page| page.cursor);
        put(page(7, 7));
        assert_eq!([cursor(7, 5), cursor(6, 5)], [Some(7); 2]);
        assert_eq!(cursor(8, 5), None, "event 8 is not in it");
        assert_eq!(cursor(7, 6), None, "another position");
        put(page(7, 9));
        assert_eq!(cursor(9, 5), Some(7), "a full page");
        let mut reader = renderer(5);
        find(&sharing(9), &mut reader).expect("the page");
        let start = reader.position().expect("a start");
        assert_eq!((start.after, start.resumed_after), (7, None), "it continues behind the page");
    }
}
