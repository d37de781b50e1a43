//! What stands here without the feature `papers`: the views are kept apart by tables, and the guest's TLB maintenance
//! tells of changed mappings.

use crate::guest::regime::Regime;
use crate::guest::walk::GuestMemory;
use crate::shadow::Shadow;
use crate::table::{HostTlb, TableMemory};
use spica_addr::{GuestPa, GuestVa};

pub use crate::separation::Apart as Separation;

/// There is no reverse map.
pub(crate) struct Tracked;

impl Tracked {
    pub(crate) const OFF: Self = Self;

    pub(crate) const fn is_on(&self) -> bool {
        false
    }

    pub(crate) const fn code(&self, _: GuestPa) -> Option<bool> {
        None
    }

    pub(crate) const fn code_mut(&mut self, _: GuestPa) -> Option<&mut bool> {
        None
    }
}

impl Shadow {
    pub(crate) fn track(
        &mut self,
        _: &impl GuestMemory,
        _: &Regime,
        _: GuestVa,
        _: &mut impl TableMemory,
        _: &mut impl HostTlb,
    ) {
    }

    pub(crate) fn release_all_tables(&mut self, _: &mut impl TableMemory, _: &mut impl HostTlb) {}
}
