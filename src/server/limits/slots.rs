//! Slots for what stays open, connections and streams: so many for all clients and so many for each.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use super::client_ip::Exemptions;

/// How many slots there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotLimits {
    /// For all clients together.
    pub(crate) all: usize,
    /// For each client; 0 for as many as for all.
    pub(crate) each: usize,
}

/// The slots and their clients. A clone shares them.
#[derive(Clone)]
pub(crate) struct Slots {
    limits: SlotLimits,
    exemptions: Arc<Exemptions>,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    /// Of clients that have any.
    each: HashMap<IpAddr, usize>,
}

/// A slot, free again when this is dropped.
pub(crate) struct Slot {
    taken: Arc<Mutex<Taken>>,
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
    pub(crate) fn new(limits: SlotLimits, exemptions: Arc<Exemptions>) -> Self {
        Self { limits, exemptions, taken: Arc::default() }
    }

    /// A slot for that client. One that is unknown or exempt may have as many as there are.
    pub(crate) fn take(&self, client: Option<IpAddr>) -> Result<Slot, NoSlot> {
        let client = client.filter(|_| self.limits.each > 0).and_then(|client| self.exemptions.key_of(client));
        let mut taken = self.taken.lock();
        if taken.all >= self.limits.all {
            return Err(NoSlot::All);
        }
        if let Some(client) = client {
            let count = taken.each.entry(client).or_default();
            if *count >= self.limits.each {
                return Err(NoSlot::Client);
            }
            *count += 1;
        }
        taken.all += 1;
        Ok(Slot { taken: self.taken.clone(), client })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
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

    fn slots(all: usize, each: usize) -> Slots {
        Slots::new(SlotLimits { all, each }, Arc::default())
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn slots_are_limited_for_each_client_and_for_all() {
        let slots = slots(4, 2);
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
    fn a_network_of_ipv6_counts_as_one_client() {
        let slots = slots(9, 1);
        let _place = slots.take(Some(address("2001:db8:0:1::1"))).ok();
        assert_eq!(slots.take(Some(address("2001:db8:0:1:ffff::2"))).err(), Some(NoSlot::Client));
        assert!(slots.take(Some(address("2001:db8:0:2::1"))).is_ok());
    }

    #[test]
    fn exempt_clients_and_limits_of_zero_are_bounded_by_all() {
        let exempt = slots(3, 1);
        let held: Vec<_> = (0..3).map(|_| exempt.take(None).ok()).collect();
        assert!(held.iter().all(Option::is_some));
        assert_eq!(exempt.take(None).err(), Some(NoSlot::All));
        let shared = slots(3, 0);
        let held: Vec<_> = (0..3).map(|_| shared.take(Some(address("1.1.1.1"))).ok()).collect();
        assert!(held.iter().all(Option::is_some));
    }

    #[test]
    fn clients_without_slots_are_forgotten() {
        let slots = slots(9, 3);
        let held: Vec<_> = (0..9).map(|last| slots.take(Some(address(&format!("1.1.1.{last}")))).ok()).collect();
        drop(held);
        let taken = slots.taken.lock();
        assert_eq!((taken.all, taken.each.len()), (0, 0));
    }
}
