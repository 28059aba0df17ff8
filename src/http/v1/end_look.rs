//! Whether a job or batch has ended: a look that all share who wait for the end.

use crate::http::shared_pages::{PageKey, PageSharing, SharedPage};
use crate::ports::StoreError;

/// What one of them has seen.
#[derive(Debug, Clone)]
pub(crate) struct EndLook {
    has_ended: bool,
    /// The newest change that it had heard of.
    seen: Option<u64>,
}

impl SharedPage for EndLook {
    const MOST_BYTES: usize = 0;
    type Position = ();

    fn bytes(&self) -> usize {
        0
    }

    fn lacks(&self, newest: u64) -> bool {
        self.seen.is_none_or(|seen| seen < newest)
    }
}

impl EndLook {
    /// Whether it has ended, by an earlier look at the same change or by this one.
    pub(crate) fn take<K: PageKey>(
        sharing: Option<PageSharing<K, Self>>,
        look: impl FnOnce() -> Result<bool, StoreError>,
    ) -> Result<bool, StoreError> {
        let Some(sharing) = sharing else { return look() };
        if let Some(known) = sharing.find(&()) {
            return Ok(known.has_ended);
        }
        let has_ended = look()?;
        sharing.put((), Self { has_ended, seen: sharing.newest() });
        Ok(has_ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::shared_pages::SharedPages;
    use std::cell::Cell;
    use std::sync::Arc;

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_for_the_same_end_look_once_at_each_change() {
        let all = Arc::<SharedPages<u8, EndLook>>::default();
        let (pages, _other) = (all.of(1), all.of(1));
        let looks = Cell::new(0);
        let look = |newest, has_ended| {
            let seen = EndLook::take(PageSharing::new(&pages, newest), || {
                looks.set(looks.get() + 1);
                Ok(has_ended)
            });
            (seen.expect("read"), looks.get())
        };
        assert_eq!([look(Some(3), false), look(Some(3), false)], [(false, 1); 2]);
        assert_eq!([look(Some(4), false), look(Some(4), false)], [(false, 2); 2]);
        assert_eq!(look(None, true), (false, 2), "somebody has just looked");
        tokio::time::advance(std::time::Duration::from_secs(2)).await;
        assert_eq!([look(None, true), look(None, false)], [(true, 3); 2], "one looks for all without a hint");
        assert_eq!(look(Some(5), false), (false, 4), "a job that is retried has not ended");
    }
}
