//! The C library's heaps, limited for a process that embeds this crate. Owns the one word to the allocator; it is here
//! because `sys` is the only place for foreign calls.

use crate::sys;

/// Makes the C library share at most so many heaps among all threads. By default it gives each thread one of its own
/// (up to eight for each processor) and keeps in every one what has been freed there. Call it before the first thread
/// starts; whether it was taken.
pub fn share_heaps(most: i32) -> bool {
    sys::limit_heaps(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_takes_the_word() {
        assert!(share_heaps(2));
    }
}
