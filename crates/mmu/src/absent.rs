//! Pages that the guest has given away: nothing maps them, whatever the guest's tables say.
//!
//! Somebody else's data may be there, so no translation of such a page may be left, of any kind, in any space or view.
//! Pages are given in numbers; so they are first noted, one by one, and then everything is forgotten at once. While a
//! page of a megabyte is absent, guest sections over that megabyte are mapped by small pages.

use crate::shadow::Shadow;
use crate::table::{HostTlb, TableMemory};
use spica_addr::GuestPa;

impl Shadow {
    /// Takes the page that holds `pa` from the guest, or gives it back. What was taken is out of reach when
    /// [`Shadow::forget_all`] has been called. False if it was so already, or is not RAM.
    pub fn set_absent(&mut self, pa: GuestPa, absent: bool) -> bool {
        self.ram.set_absent(pa, absent)
    }

    /// Drops every translation, also those that do not come from guest tables. Spaces that are not active are swept
    /// when they are next used, the active one when [`Shadow::settle`] is done.
    pub fn forget_all(&mut self, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) {
        self.drop_spaces(|_| true, tables, tlb);
    }
}
