//! Checks of what a document asks for against the limits that only the schema can check.

use super::error::ApiError;
use crate::limits::Limits;

fn number(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

impl Limits {
    /// Whether a list that a client gives may be this long. Errors: QUERY_LIMIT_EXCEEDED.
    pub(crate) fn check_ids(&self, count: usize) -> Result<(), ApiError> {
        if count > self.ids { Err(ApiError::limit_exceeded("ids", number(self.ids), number(count))) } else { Ok(()) }
    }

    /// Whether a subscription may follow this many things. Errors: QUERY_LIMIT_EXCEEDED.
    pub(crate) fn check_watch(&self, count: usize) -> Result<(), ApiError> {
        if count > self.watch {
            return Err(ApiError::limit_exceeded("watch", number(self.watch), number(count)));
        }
        Ok(())
    }

    /// Errors: QUERY_LIMIT_EXCEEDED.
    pub(crate) fn check(&self, depth: usize, complexity: usize) -> Result<(), ApiError> {
        for (which, limit, actual) in [("depth", self.depth, depth), ("complexity", self.complexity, complexity)] {
            if actual > limit {
                return Err(ApiError::limit_exceeded(which, number(limit), number(actual)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_reached_but_not_passed() {
        let limits = Limits { depth: 2, complexity: 10, ..Limits::default() };
        assert_eq!(limits.check(2, 10), Ok(()));
        assert_eq!(limits.check(3, 10), Err(ApiError::limit_exceeded("depth", 2, 3)));
        assert_eq!(limits.check(2, 11), Err(ApiError::limit_exceeded("complexity", 10, 11)));
    }
}
