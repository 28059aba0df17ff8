//! Whether stderr is the journal. Owns the comparison that systemd.exec(5) asks for; refuses to write there.

/// Whether `$JOURNAL_STREAM` names the very file that stderr is: somebody may have redirected it since.
pub(super) fn is_stderr() -> bool {
    let told = std::env::var_os("JOURNAL_STREAM").and_then(|told| told.into_string().ok());
    let found = rustix::fs::fstat(std::io::stderr()).ok();
    told.zip(found).is_some_and(|(told, found)| names(&told, found.st_dev, found.st_ino))
}

/// `device:inode`, in decimal digits.
fn names(told: &str, device: u64, inode: u64) -> bool {
    told.split_once(':').is_some_and(|(dev, ino)| dev.parse() == Ok(device) && ino.parse() == Ok(inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_file_is_the_journal() {
        assert!(names("8:1234", 8, 1234));
        for told in ["8:1235", "9:1234", "8", "", ":", "x:1234", "8:1234:5", "8: 1234"] {
            assert!(!names(told, 8, 1234), "{told}");
        }
    }
}
