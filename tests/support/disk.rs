//! A disk in memory that knows what was synced, and makes images of what a power loss may leave.

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

/// Small and seeded: splitmix64.
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

    /// One of these.
    pub(crate) fn pick<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        among.get(usize::try_from(self.below(among.len().max(1) as u64)).unwrap())
    }
}

/// Stands between the store and the disk: it may look at the disk, and it may fail the operation.
pub(crate) trait DiskHook: Debug + Send + Sync {
    /// Told before every write, sync and change of length.
    fn before_write(&self, disk: &Disk) -> io::Result<()>;
}

#[derive(Debug, Default)]
struct Sectors {
    /// What a read sees.
    current: Vec<u8>,
    /// What is safe.
    durable: Vec<u8>,
    /// Every version of every sector written since the last sync.
    unsynced: BTreeMap<usize, Vec<Vec<u8>>>,
    /// Every length set since the last sync.
    lengths: Vec<usize>,
}

/// The disk; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    platter: Arc<Mutex<Sectors>>,
    syncs: Syncs,
    fate: Option<Arc<dyn DiskHook>>,
}

impl Disk {
    /// A disk with this on it, safe.
    pub(crate) fn with(image: Vec<u8>, syncs: Syncs, fate: Option<Arc<dyn DiskHook>>) -> Self {
        let platter = Sectors { current: image.clone(), durable: image, ..Sectors::default() };
        Self { platter: Arc::new(Mutex::new(platter)), syncs, fate }
    }

    /// What a power loss now leaves.
    pub(crate) fn image(&self, random: &mut SeededRandom) -> Vec<u8> {
        let platter = self.platter.lock().unwrap();
        let mut image = platter.durable.clone();
        let lengths: Vec<_> = std::iter::once(image.len()).chain(platter.lengths.iter().copied()).collect();
        image.resize(*random.pick(&lengths).unwrap(), 0);
        // Anything from hardly a sector to nearly all of them.
        let odds = random.below(11);
        for (sector, versions) in &platter.unsynced {
            let start = sector * SECTOR;
            if random.below(10) < odds && start < image.len() {
                let version = random.pick(versions).unwrap();
                let length = version.len().min(image.len() - start);
                image[start..start + length].copy_from_slice(&version[..length]);
            }
        }
        image
    }

    /// What every reader of the living machine sees.
    pub(crate) fn content(&self) -> Vec<u8> {
        self.platter.lock().unwrap().current.clone()
    }

    fn before_write(&self) -> io::Result<()> {
        self.fate.as_ref().map_or(Ok(()), |fate| fate.before_write(self))
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.platter.lock().unwrap().current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        let platter = self.platter.lock().unwrap();
        let bytes = platter.current.get(start..start + out.len());
        out.copy_from_slice(bytes.ok_or_else(|| io::Error::other("read past the end"))?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.before_write()?;
        let mut platter = self.platter.lock().unwrap();
        let len = usize::try_from(len).unwrap();
        platter.current.resize(len, 0);
        platter.lengths.push(len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.before_write()?;
        if self.syncs == Syncs::Hold {
            let platter = &mut *self.platter.lock().unwrap();
            platter.durable.resize(platter.current.len(), 0);
            for sector in std::mem::take(&mut platter.unsynced).into_keys() {
                let end = (sector * SECTOR + SECTOR).min(platter.current.len());
                let start = (sector * SECTOR).min(end);
                platter.durable[start..end].copy_from_slice(&platter.current[start..end]);
            }
            platter.lengths.clear();
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.before_write()?;
        let platter = &mut *self.platter.lock().unwrap();
        let start = usize::try_from(offset).unwrap();
        let end = start + data.len();
        let Some(place) = platter.current.get_mut(start..end) else {
            return Err(io::Error::other("write past the end"));
        };
        place.copy_from_slice(data);
        for sector in (start / SECTOR)..end.div_ceil(SECTOR) {
            let from = sector * SECTOR;
            let version = platter.current[from..(from + SECTOR).min(platter.current.len())].to_vec();
            platter.unsynced.entry(sector).or_default().push(version);
        }
        Ok(())
    }
}
