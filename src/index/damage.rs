//! Reading a file that may be damaged.
//!
//! redb validates only a part of what it reads: it returns an error for most invalid bytes and panics for some. Code that reads
//! a file that may be damaged runs inside [`catch_damage`], which turns a panic into an error.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::error::IndexError;

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread will be caught and reported as damage of the index: then a panic hook need not report it.
#[must_use]
pub fn is_catching_damage() -> bool {
    CATCHING.get()
}

/// Runs `read`, which reads the index file on this thread. After a panic, nothing that it changed may be used.
///
/// Errors: those of `read`; [`IndexError::Damaged`] if it panics.
pub fn catch_damage<T, E: From<IndexError>>(read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let before = CATCHING.replace(true);
    let result = catch_unwind(AssertUnwindSafe(read));
    CATCHING.set(before);
    result.unwrap_or_else(|_| {
        let what = "the database found invalid bytes in place of rows or of its own records";
        Err(IndexError::Damaged { what: what.to_owned() }.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_damage_and_a_result_is_returned() {
        assert!(catch_damage::<_, IndexError>(|| Ok(is_catching_damage())).unwrap());
        assert!(matches!(catch_damage::<(), _>(|| Err(IndexError::Broken)), Err(IndexError::Broken)));
        let nothing: [u8; 0] = [];
        let caught = catch_damage::<u8, IndexError>(|| Ok(nothing[usize::from(!is_catching_damage())]));
        assert!(matches!(caught, Err(IndexError::Damaged { .. })));
        assert!(!is_catching_damage());
    }
}
