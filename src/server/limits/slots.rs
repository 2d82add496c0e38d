//! Slots that are taken by clients: so many in all, and so many by one client.
//!
//! A client is an address, or a network of IPv6 addresses, which is given to one customer as a whole.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::server::middleware::rate_limit::rate_limit_key;

/// How many slots there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotLimits {
    /// For all together.
    pub(crate) all: usize,
    /// For one client; 0 for as many as for all.
    pub(crate) each: usize,
}

/// The slots, and who has them. A clone is the same.
#[derive(Clone)]
pub(crate) struct Slots {
    most: SlotLimits,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    /// Only of clients that have any.
    each: HashMap<IpAddr, usize>,
}

/// A slot, which is free again when this is dropped.
pub(crate) struct Slot {
    of: Arc<Mutex<Taken>>,
    client: Option<IpAddr>,
}

/// Why there is no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSlot {
    /// All are taken.
    All,
    /// This client has as many as it may.
    Client,
}

impl Slots {
    pub(crate) fn new(most: SlotLimits) -> Self {
        Self { most, taken: Arc::default() }
    }

    /// A slot for that client, `None` for one that may have as many as there are.
    pub(crate) fn take(&self, client: Option<IpAddr>) -> Result<Slot, NoSlot> {
        let client = client.filter(|_| self.most.each > 0).map(rate_limit_key);
        // nothing in here can fail halfway
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.all >= self.most.all {
            return Err(NoSlot::All);
        }
        if let Some(client) = client {
            let count = taken.each.entry(client).or_default();
            if *count >= self.most.each {
                return Err(NoSlot::Client);
            }
            *count += 1;
        }
        taken.all += 1;
        Ok(Slot { of: self.taken.clone(), client })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all = taken.all.saturating_sub(1);
        let Some(client) = self.client else { return };
        if let Some(count) = taken.each.get_mut(&client) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                taken.each.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_client_has_its_share_and_all_have_theirs() {
        let slots = Slots::new(SlotLimits { all: 4, each: 2 });
        let of = |text| slots.take(Some(address(text)));
        let (a, _b) = (of("1.1.1.1").ok(), of("1.1.1.1").ok());
        assert_eq!(of("1.1.1.1").err(), Some(NoSlot::Client));
        let (_c, d) = (of("2.2.2.2").ok(), of("3.3.3.3").ok());
        assert_eq!((of("1.1.1.1").err(), of("4.4.4.4").err()), (Some(NoSlot::All), Some(NoSlot::All)));
        drop(a);
        let _e = of("1.1.1.1").ok();
        drop(d);
        assert_eq!(of("1.1.1.1").err(), Some(NoSlot::Client));
        assert!(of("4.4.4.4").is_ok());
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let slots = Slots::new(SlotLimits { all: 9, each: 1 });
        let _place = slots.take(Some(address("2001:db8:0:1::1"))).ok();
        assert_eq!(slots.take(Some(address("2001:db8:0:1:ffff::2"))).err(), Some(NoSlot::Client));
        assert!(slots.take(Some(address("2001:db8:0:2::1"))).is_ok());
    }

    #[test]
    fn who_may_have_all_and_everyone_without_a_share_is_not_told_apart() {
        let exempt = Slots::new(SlotLimits { all: 3, each: 1 });
        let held: Vec<_> = (0..3).map(|_| exempt.take(None).ok()).collect();
        assert!(held.iter().all(Option::is_some));
        assert_eq!(exempt.take(None).err(), Some(NoSlot::All));
        let shared = Slots::new(SlotLimits { all: 3, each: 0 });
        let held: Vec<_> = (0..3).map(|_| shared.take(Some(address("1.1.1.1"))).ok()).collect();
        assert!(held.iter().all(Option::is_some));
    }

    #[test]
    fn nothing_is_kept_of_clients_that_have_gone() {
        let slots = Slots::new(SlotLimits { all: 9, each: 3 });
        let held: Vec<_> = (0..9).map(|last| slots.take(Some(address(&format!("1.1.1.{last}")))).ok()).collect();
        drop(held);
        let taken = slots.taken.lock().unwrap();
        assert_eq!((taken.all, taken.each.len()), (0, 0));
    }
}
