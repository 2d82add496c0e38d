//! How far the check is.

/// The progress of the check.
#[derive(Clone, Copy, Debug)]
pub struct VerifyProgress {
    /// What is being done.
    pub phase: &'static str,
    /// How much of the phase is done: transactions or rows.
    pub done: u64,
    /// How much there is to do.
    pub total: u64,
}
