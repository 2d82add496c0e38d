use async_graphql::Variables;
use async_graphql::parser::types::Field;

/// What one is sent that joins a subscription that others have already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// What happens from now on, every event of it.
    FromNowOn,
    /// The newest event, and then those that come. Each takes the place of the one before, so that that is slow needs the
    /// newest only.
    NewestFirst,
}

/// How clients that ask for the same of a field of `Subscription` share one execution. It is declared beside the resolver.
///
/// What is sent to one must be what would be sent to another that came later: the events themselves, and nothing that depends on
/// when a client came or what it was sent before.
pub(crate) struct FieldSharing {
    pub(crate) field: &'static str,
    pub(crate) sharing: Option<Sharing>,
    /// Whether it is shared with these arguments.
    pub(crate) condition: fn(&Field, &Variables) -> bool,
    /// Whether its events have cursors, after which a client that comes back goes on.
    pub(crate) has_cursors: bool,
}

impl FieldSharing {
    /// One execution for all.
    pub(crate) const fn shared(field: &'static str, sharing: Sharing) -> Self {
        Self { field, sharing: Some(sharing), condition: |_, _| true, has_cursors: false }
    }

    /// An execution for each client.
    pub(crate) const fn not_shared(field: &'static str) -> Self {
        Self { field, sharing: None, condition: |_, _| false, has_cursors: false }
    }

    /// An execution for each client, whose events have numbers of its own, which begin with 1 or go on from the cursor after which it
    /// resumes.
    pub(crate) const fn numbered(field: &'static str) -> Self {
        Self { has_cursors: true, ..Self::not_shared(field) }
    }

    /// One execution for all that give arguments of which this is true.
    pub(crate) const fn only_if(self, condition: fn(&Field, &Variables) -> bool) -> Self {
        Self { condition, ..self }
    }
}
