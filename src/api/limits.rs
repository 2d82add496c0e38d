//! Checks of what a document asks for against the limits that only the schema can check.

use super::error::{ApiError, COMPLEXITY};
use crate::limits::Limits;

fn number(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

/// Whether what an argument asks for is within a limit. Errors: QUERY_LIMIT_EXCEEDED.
fn check(argument: &str, which: &'static str, limit: usize, count: usize) -> Result<(), ApiError> {
    if count > limit {
        return Err(ApiError::argument_exceeds(argument, which, number(limit), number(count)));
    }
    Ok(())
}

impl Limits {
    /// What an answer may cost.
    pub(crate) fn answer_cost(&self) -> u64 {
        number(self.complexity)
    }

    /// Whether the list that a client gives in an argument may be this long. Errors: QUERY_LIMIT_EXCEEDED.
    pub(crate) fn check_ids(&self, argument: &str, count: usize) -> Result<(), ApiError> {
        check(argument, "idsPerList", self.ids, count)
    }

    /// Whether a subscription may follow this many things. Errors: QUERY_LIMIT_EXCEEDED.
    pub(crate) fn check_watched_items(&self, argument: &str, count: usize) -> Result<(), ApiError> {
        check(argument, "watchedItems", self.watched_items, count)
    }

    /// Whether the accounts of an argument may derive this many scripts. Errors: QUERY_LIMIT_EXCEEDED.
    pub(crate) fn check_derived_scripts(&self, argument: &str, count: usize) -> Result<(), ApiError> {
        check(argument, "derivedScripts", self.derived_scripts, count)
    }

    /// Whether a subscription may watch this many descriptors. Errors: QUERY_LIMIT_EXCEEDED.
    pub(crate) fn check_watched_descriptors(&self, argument: &str, count: usize) -> Result<(), ApiError> {
        check(argument, "watchedDescriptors", self.watched_descriptors, count)
    }

    /// Whether a subscription may watch this many branches. Errors: QUERY_LIMIT_EXCEEDED.
    pub(crate) fn check_watched_branches(&self, argument: &str, count: usize) -> Result<(), ApiError> {
        check(argument, "watchedBranches", self.watched_branches, count)
    }

    /// The gap limit of an account, as it was given under this name, with its path in the argument. Errors: BAD_USER_INPUT below
    /// 1, QUERY_LIMIT_EXCEEDED.
    pub(crate) fn check_gap_limit(&self, name: &str, gap_limit: i32) -> Result<u32, ApiError> {
        let found = u32::try_from(gap_limit).ok().filter(|gap_limit| *gap_limit > 0);
        let found = found.ok_or_else(|| {
            ApiError::bad_argument(name, format!("is {gap_limit}: give a number of scripts, at least 1"))
        })?;
        if found > self.gap_limit {
            return Err(ApiError::argument_above(name, "gapLimit", self.gap_limit.into(), found.into()));
        }
        Ok(found)
    }

    /// Whether a document may have so many levels of fields. Errors: QUERY_LIMIT_EXCEEDED.
    pub(crate) fn check_depth(&self, depth: usize) -> Result<(), ApiError> {
        if depth > self.depth {
            return Err(ApiError::limit_exceeded("fieldLevels", number(self.depth), number(depth)));
        }
        Ok(())
    }

    /// Whether a document whose answer costs at most so much may be executed. A mutation may not cost more than an answer may: it
    /// would be refused when a part of it is done. Errors: QUERY_LIMIT_EXCEEDED.
    pub(crate) fn check_worst_case(&self, worst_case: usize, is_mutation: bool) -> Result<(), ApiError> {
        let (which, limit) = if is_mutation {
            (COMPLEXITY, self.complexity.min(self.worst_case_complexity))
        } else {
            ("worstCaseComplexity", self.worst_case_complexity)
        };
        if worst_case > limit {
            return Err(ApiError::limit_exceeded(which, number(limit), number(worst_case)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_reached_but_not_passed() {
        let limits = Limits { depth: 2, complexity: 5, worst_case_complexity: 10, ..Limits::default() };
        assert_eq!(limits.check_depth(2), Ok(()));
        assert_eq!(limits.check_depth(3), Err(ApiError::limit_exceeded("fieldLevels", 2, 3)));
        for (worst_case, is_mutation, refused) in [
            (5, true, None),
            (6, true, Some(("complexity", 5))),
            (10, false, None),
            (11, false, Some(("worstCaseComplexity", 10))),
        ] {
            let expected = refused.map(|(which, limit)| ApiError::limit_exceeded(which, limit, number(worst_case)));
            assert_eq!(limits.check_worst_case(worst_case, is_mutation).err(), expected);
        }
    }
}
