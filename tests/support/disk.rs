//! An in-memory disk that tracks synced sectors and makes images of what a power loss may leave.

use redb::StorageBackend;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::sync::{Arc, Mutex};

const SECTOR: usize = 512;

/// Whether a sync makes writes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syncs {
    Hold,
    Lie,
}

/// A small seeded generator: splitmix64.
#[derive(Debug, Clone)]
pub(crate) struct SeededRandom(pub(crate) u64);

impl SeededRandom {
    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// A random element of `among`.
    pub(crate) fn pick<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        among.get(usize::try_from(self.below(among.len().max(1) as u64)).unwrap())
    }
}

/// Runs before operations of the store on the disk; may inspect the disk and fail the operation.
pub(crate) trait DiskHook: Debug + Send + Sync {
    /// Called before every write, sync and change of length.
    fn before_write(&self, disk: &Disk) -> io::Result<()>;
}

#[derive(Debug, Default)]
struct Sectors {
    /// The bytes that a read returns.
    current: Vec<u8>,
    /// The bytes that survive a power loss.
    durable: Vec<u8>,
    /// Every version of every sector written since the last sync.
    unsynced: BTreeMap<usize, Vec<Vec<u8>>>,
    /// Every length set since the last sync.
    lengths: Vec<usize>,
    /// Reads so far.
    reads: u64,
}

/// The disk; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    sectors: Arc<Mutex<Sectors>>,
    syncs: Syncs,
    hook: Option<Arc<dyn DiskHook>>,
}

impl Disk {
    /// A disk with this durable content.
    pub(crate) fn with(image: Vec<u8>, syncs: Syncs, hook: Option<Arc<dyn DiskHook>>) -> Self {
        let sectors = Sectors { current: image.clone(), durable: image, ..Sectors::default() };
        Self { sectors: Arc::new(Mutex::new(sectors)), syncs, hook }
    }

    /// One possible content after a power loss now.
    pub(crate) fn image(&self, random: &mut SeededRandom) -> Vec<u8> {
        let sectors = self.sectors.lock().unwrap();
        let mut image = sectors.durable.clone();
        let lengths: Vec<_> = std::iter::once(image.len()).chain(sectors.lengths.iter().copied()).collect();
        image.resize(*random.pick(&lengths).unwrap(), 0);
        // From almost no sector to nearly all of them.
        let odds = random.below(11);
        for (sector, versions) in &sectors.unsynced {
            let start = sector * SECTOR;
            if random.below(10) < odds && start < image.len() {
                let version = random.pick(versions).unwrap();
                let length = version.len().min(image.len() - start);
                image[start..start + length].copy_from_slice(&version[..length]);
            }
        }
        image
    }

    /// The content without a power loss.
    pub(crate) fn content(&self) -> Vec<u8> {
        self.sectors.lock().unwrap().current.clone()
    }

    /// How often the store has read.
    pub(crate) fn reads(&self) -> u64 {
        self.sectors.lock().unwrap().reads
    }

    fn before_write(&self) -> io::Result<()> {
        self.hook.as_ref().map_or(Ok(()), |hook| hook.before_write(self))
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.sectors.lock().unwrap().current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        let mut sectors = self.sectors.lock().unwrap();
        sectors.reads += 1;
        let bytes = sectors.current.get(start..start + out.len());
        out.copy_from_slice(bytes.ok_or_else(|| io::Error::other("read past the end"))?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.before_write()?;
        let mut sectors = self.sectors.lock().unwrap();
        let len = usize::try_from(len).unwrap();
        sectors.current.resize(len, 0);
        sectors.lengths.push(len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.before_write()?;
        if self.syncs == Syncs::Hold {
            let sectors = &mut *self.sectors.lock().unwrap();
            sectors.durable.resize(sectors.current.len(), 0);
            for sector in std::mem::take(&mut sectors.unsynced).into_keys() {
                let end = (sector * SECTOR + SECTOR).min(sectors.current.len());
                let start = (sector * SECTOR).min(end);
                sectors.durable[start..end].copy_from_slice(&sectors.current[start..end]);
            }
            sectors.lengths.clear();
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.before_write()?;
        let sectors = &mut *self.sectors.lock().unwrap();
        let start = usize::try_from(offset).unwrap();
        let end = start + data.len();
        let Some(target) = sectors.current.get_mut(start..end) else {
            return Err(io::Error::other("write past the end"));
        };
        target.copy_from_slice(data);
        for sector in (start / SECTOR)..end.div_ceil(SECTOR) {
            let from = sector * SECTOR;
            let version = sectors.current[from..(from + SECTOR).min(sectors.current.len())].to_vec();
            sectors.unsynced.entry(sector).or_default().push(version);
        }
        Ok(())
    }
}
