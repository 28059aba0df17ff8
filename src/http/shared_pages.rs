//! Pages that the readers of one job or batch share: those that wait for the same change read and render it
//! once. Each answer confirms for itself who may read.

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// The most pages kept for a job or batch. Its readers are at few positions at a time.
const MOST_PAGES: usize = 4;
/// Readers that look without a hint share what one of them read within this time.
const FRESH: Duration = Duration::from_secs(1);

/// What readers share.
pub(crate) trait SharedPage: Clone + Debug {
    /// The most bytes kept for a job or batch.
    const MOST_BYTES: usize;
    /// Where its readers stand before it.
    type Position: PartialEq + Debug;

    fn bytes(&self) -> usize;

    /// Whether what this newest change has added may belong in it.
    fn lacks(&self, newest: u64) -> bool;
}

/// Names a job or batch.
pub(crate) trait PageKey: Copy + Eq + Hash + Debug {}

impl<K: Copy + Eq + Hash + Debug> PageKey for K {}

/// The pages of all jobs or batches that have readers.
#[derive(Debug)]
pub(crate) struct SharedPages<K: PageKey, P: SharedPage>(Mutex<HashMap<K, Weak<ReaderPages<K, P>>>>);

/// The newest pages of one job or batch.
#[derive(Debug)]
pub(crate) struct ReaderPages<K: PageKey, P: SharedPage> {
    key: K,
    all: Arc<SharedPages<K, P>>,
    newest_last: Mutex<VecDeque<KeptPage<P>>>,
    /// Held by the reader that reads for the others.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct KeptPage<P: SharedPage> {
    start: P::Position,
    page: P,
    read_at: Instant,
}

impl<K: PageKey, P: SharedPage> Default for SharedPages<K, P> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: PageKey, P: SharedPage> SharedPages<K, P> {
    /// The pages of this job or batch. They are dropped with their last reader.
    pub(crate) fn of(self: &Arc<Self>, key: K) -> Arc<ReaderPages<K, P>> {
        let mut all = self.lock();
        if let Some(pages) = all.get(&key).and_then(Weak::upgrade) {
            return pages;
        }
        let pages = Arc::new(ReaderPages {
            key,
            all: Arc::clone(self),
            newest_last: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        });
        all.insert(key, Arc::downgrade(&pages));
        pages
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Weak<ReaderPages<K, P>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: PageKey, P: SharedPage> Drop for ReaderPages<K, P> {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        // A new reader may have made new ones.
        if all.get(&self.key).is_some_and(|pages| pages.strong_count() == 0) {
            all.remove(&self.key);
        }
    }
}

/// How a reader uses the pages that it shares with others.
#[derive(Debug)]
pub(crate) struct PageSharing<K: PageKey, P: SharedPage> {
    pages: Arc<ReaderPages<K, P>>,
    /// The newest change that the reader has heard of; `None`: a hint may be lost, and it looks for itself.
    newest: Option<u64>,
}

impl<K: PageKey, P: SharedPage> PageSharing<K, P> {
    /// `None`: nobody else reads this job or batch.
    pub(crate) fn new(pages: &Arc<ReaderPages<K, P>>, newest: Option<u64>) -> Option<Self> {
        (Arc::strong_count(pages) > 1).then(|| Self { pages: Arc::clone(pages), newest })
    }

    /// The page behind this position, if it has all that it could have.
    pub(crate) fn find(&self, start: &P::Position) -> Option<P> {
        let pages = self.lock();
        let kept = pages.iter().find(|kept| kept.start == *start)?;
        let is_usable = match self.newest {
            Some(newest) => !kept.page.lacks(newest),
            None => kept.read_at.elapsed() < FRESH,
        };
        is_usable.then(|| kept.page.clone())
    }

    /// The newest change that the reader has heard of.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.newest
    }

    /// Keeps a page for the other readers.
    pub(crate) fn put(&self, start: P::Position, page: P) {
        let mut pages = self.lock();
        pages.retain(|kept| kept.start != start);
        pages.push_back(KeptPage { start, page, read_at: Instant::now() });
        let mut bytes: usize = pages.iter().map(|kept| kept.page.bytes()).sum();
        while pages.len() > MOST_PAGES || bytes > P::MOST_BYTES {
            let Some(oldest) = pages.pop_front() else { return };
            bytes = bytes.saturating_sub(oldest.page.bytes());
        }
    }

    /// The page behind this position, which one reader reads while the others wait for it.
    pub(crate) async fn find_or_read<E>(
        &self,
        start: P::Position,
        reading: impl Future<Output = Result<P, E>>,
    ) -> Result<P, E> {
        if let Some(page) = self.find(&start) {
            return Ok(page);
        }
        let _turn = self.pages.turn.lock().await;
        if let Some(page) = self.find(&start) {
            return Ok(page);
        }
        let page = reading.await?;
        self.put(start, page.clone());
        Ok(page)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<KeptPage<P>>> {
        self.pages.newest_last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A page of so many bytes that has all up to this change.
    #[derive(Debug, Clone, PartialEq)]
    struct Bytes(usize, u64);

    impl SharedPage for Bytes {
        const MOST_BYTES: usize = 100;
        type Position = u64;

        fn bytes(&self) -> usize {
            self.0
        }

        fn lacks(&self, newest: u64) -> bool {
            self.1 < newest
        }
    }

    fn two_readers() -> [Arc<ReaderPages<u8, Bytes>>; 2] {
        let registry = Arc::<SharedPages<u8, Bytes>>::default();
        [registry.of(1), registry.of(1)]
    }

    #[test]
    fn p8_shared_pages_are_bounded_and_end_with_their_readers() {
        let [one, two] = two_readers();
        let registry = Arc::clone(&one.all);
        let sharing = PageSharing::new(&one, Some(0)).expect("two readers");
        for after in 0..10 {
            sharing.put(after, Bytes(1, 0));
        }
        assert_eq!(sharing.lock().len(), MOST_PAGES);
        sharing.put(10, Bytes(100, 0));
        assert_eq!(sharing.lock().len(), 1, "the large one alone");
        sharing.put(11, Bytes(101, 0));
        assert!(sharing.lock().is_empty(), "too large to keep");
        drop((sharing, two));
        assert!(PageSharing::new(&one, None).is_none(), "one reader shares nothing");
        drop(one);
        assert!(registry.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn readers_of_the_same_change_read_once() {
        let [one, _two] = two_readers();
        let reads = Cell::new(0);
        let read = async |newest: Option<u64>| {
            let reading = async {
                tokio::task::yield_now().await;
                reads.set(reads.get() + 1);
                Ok::<_, ()>(Bytes(1, newest.unwrap_or(7)))
            };
            let sharing = PageSharing::new(&one, newest).expect("two readers");
            sharing.find_or_read(5, reading).await.expect("read")
        };
        let pages = futures_util::future::join_all((0..9).map(|_| read(Some(7)))).await;
        assert_eq!((reads.get(), pages), (1, vec![Bytes(1, 7); 9]));
        read(Some(6)).await;
        assert_eq!(reads.get(), 1, "it has more than was heard of");
        read(Some(8)).await;
        assert_eq!(reads.get(), 2, "change 8 may belong in it");
        tokio::time::advance(FRESH).await;
        futures_util::future::join_all((0..9).map(|_| read(None))).await;
        assert_eq!(reads.get(), 3, "those that look without a hint share one look");
    }
}
