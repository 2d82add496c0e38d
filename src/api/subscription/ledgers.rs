use std::sync::Arc;

use async_graphql::futures_util::stream::{Stream, StreamExt};
use async_graphql::{Context, Subscription};

use super::super::error::ApiError;
use super::super::follow::up_to_an_error;
use super::super::follow_ledger::{LedgerFollower, Sources, StaleBlocks};
use super::super::ledger::{WatchInput, Watched};
use super::super::ledger_event::LedgerEvent;
use super::super::request::limits;
use super::super::resume::LedgerPlace;
use super::{Source, seq};

/// How many numbers of confirmations one subscription can ask for.
const DEPTHS: usize = 20;

/// What is told of addresses and scripts.
pub(super) struct LedgerSubscription {
    source: Source,
    stale: Arc<StaleBlocks>,
}

impl LedgerSubscription {
    pub(super) fn new(source: Source) -> Self {
        Self { source, stale: Arc::default() }
    }
}

#[Subscription]
impl LedgerSubscription {
    /// What happens to every transaction that pays or spends what is watched, in order: when it is seen in the mempool,
    /// when it leaves that again, when a block confirms it, when it has as many confirmations as asked for, when its
    /// coins mature, and when a reorganisation takes its block away. What leaves the chain comes first then, the newest
    /// first, and then what joins, each transaction where its block has it.
    async fn ledger_events(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "What to watch, at most `server.limits.watch` addresses and scripts. What is given twice counts once."
        )]
        watch: WatchInput,
        #[graphql(
            desc = "Only what comes behind the event with this cursor. Within what this server remembers of the mempool \
                    and of the chain nothing is missing. One who was away for longer, or since before the server \
                    started, is told all changes of the chain that were not taken back meanwhile, and then GAP, SEEN \
                    for all that waits in the mempool now, and GAP_END. A block that this server does not have yet is \
                    waited for, up to 10 seconds; CURSOR_EXPIRED if it does not come."
        )]
        after: Option<String>,
        #[graphql(
            desc = "At which numbers of confirmations to tell of a transaction, at most 20. Of the first one CONFIRMED \
                    tells, whether it is in the list or not.",
            default_with = "Some(vec![1])"
        )]
        depths: Option<Vec<i32>>,
    ) -> Result<impl Stream<Item = Result<LedgerEvent, ApiError>> + use<>, ApiError> {
        let Source { published, live, .. } = &self.source;
        let limits = *limits(ctx)?;
        let depths = above_one(depths.unwrap_or_default())?;
        let watched = {
            let view = published.view_of(self.source.head()?, limits.transaction_bytes, published.ask());
            Watched::of(&Arc::new(view), watch, &limits)?
        };
        let scope = LedgerPlace::scope(format!("{} {depths:?}", watched.id()));
        let place = after.map(|cursor| LedgerPlace::read(&cursor, &scope)).transpose()?;
        if let Some(place) = place {
            self.source.wait_for(place.block).await?;
        }
        let events = live.subscribe();
        let head = self.source.head()?;
        let sources = Sources { published, live, stale: &self.stale, allowance: limits.transaction_bytes };
        let follower = LedgerFollower::new(&sources, (watched.clone(), depths), place, events, &head)?;
        let told = up_to_an_error(follower).enumerate().map(move |(number, found)| {
            let (view, happening) = found?;
            let cursor = happening.place.cursor(&scope);
            LedgerEvent::new(view, &happening, &watched, (seq(number)?, cursor), limits.scan_rows)
        });
        Ok(self.source.counted(told))
    }
}

/// The numbers of confirmations above the first, ascending, each once.
fn above_one(depths: Vec<i32>) -> Result<Vec<u32>, ApiError> {
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    if depths.len() > DEPTHS {
        return Err(ApiError::limit_exceeded("depths", number(DEPTHS), number(depths.len())));
    }
    let mut above = Vec::with_capacity(depths.len());
    for depth in depths {
        let depth = u32::try_from(depth).ok().filter(|depth| *depth > 0);
        let depth =
            depth.ok_or_else(|| ApiError::bad_user_input("a number of confirmations to tell of is at least 1"))?;
        above.extend((depth > 1).then_some(depth));
    }
    above.sort_unstable();
    above.dedup();
    Ok(above)
}
