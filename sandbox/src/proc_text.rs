//! Figures in files of `/proc`.

/// The figure of the first line "Name: 12", or "Name: 12 kB" in bytes. `name` ends with its colon.
pub(crate) fn figure(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?.trim();
    match value.strip_suffix(" kB") {
        Some(kib) => kib.trim_end().parse::<u64>().ok()?.checked_mul(1_024),
        None => value.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_found_by_the_start_of_its_line() {
        let text = "Name:\tRssAnon: 9 kB\nRssAnon:\t     100 kB\nThreads:\t7\nState:\tS (sleeping)\n";
        assert_eq!(figure(text, "RssAnon:"), Some(102_400));
        assert_eq!(figure(text, "Threads:"), Some(7));
        assert_eq!((figure(text, "State:"), figure(text, "VmRSS:")), (None, None));
    }
}
