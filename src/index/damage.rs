//! Reading a file that may be damaged.
//!
//! redb checks what it reads in part: where bytes make no sense it returns an error, and now and then it panics. Code that
//! reads a file that is not known to be whole does so in here, where a panic becomes an error.

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

/// Does what reads the index file on this thread. What was changed by it when it panicked must not be used again.
///
/// Errors: those of `read`; [`IndexError::Damaged`] if it panics.
pub fn catch_damage<T, E: From<IndexError>>(read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let before = CATCHING.replace(true);
    let result = catch_unwind(AssertUnwindSafe(read));
    CATCHING.set(before);
    result.unwrap_or_else(|_| {
        let what = "bytes that the database has no use for are where it expects rows or its own records";
        Err(IndexError::Damaged { what: what.to_owned() }.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_damage_and_a_result_is_passed_on() {
        assert!(catch_damage::<_, IndexError>(|| Ok(is_catching_damage())).unwrap());
        assert!(matches!(catch_damage::<(), _>(|| Err(IndexError::Broken)), Err(IndexError::Broken)));
        let nothing: [u8; 0] = [];
        let caught = catch_damage::<u8, IndexError>(|| Ok(nothing[usize::from(!is_catching_damage())]));
        assert!(matches!(caught, Err(IndexError::Damaged { .. })));
        assert!(!is_catching_damage());
    }
}
