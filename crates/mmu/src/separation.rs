//! How the two views of a guest are kept apart, and what the host's domains mean for it: each view has a table and an
//! ASID of its own. In the kernel view the host's domains are the guest's, which opens and closes them at will; but for
//! domain 15, which is the hypervisor's, and which the guest's domain 15 and its flat map share. In the user view all
//! is in domain 15: user code cannot write DACR, and a kernel that returns to it has the same value there every time.
//! So the kernel view's DACR stays in force while user code runs.
//!
//! [`Separation`](crate::Separation) is [`Apart`], but where another way is compared with it (feature `papers`).

use crate::host::OWN_DOMAIN;
use crate::space::View;

pub(crate) const fn client(domain: u8) -> u32 {
    0b01 << (2 * domain)
}

/// A value for the host's DACR that is safe there: no domain is manager, so that the shadow's permissions hold, and the
/// hypervisor's own is client, so that it goes on. [`Separation`](crate::Separation) makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct HostDacr(pub(crate) u32);

impl HostDacr {
    /// As the register has it.
    #[must_use]
    pub const fn raw(self) -> u32 {
        self.0
    }
}

impl Default for HostDacr {
    /// Nothing but the hypervisor's own domain.
    fn default() -> Self {
        HostDacr(client(OWN_DOMAIN))
    }
}

/// The part of a guest's DACR that says which domains are manager, those of `resolved` left out, and all of these.
pub(crate) const fn managers(guest_dacr: u32, resolved: u32) -> u32 {
    let manager = guest_dacr & guest_dacr >> 1 & 0x5555_5555;
    manager & !resolved | guest_dacr & resolved
}

/// A guest's DACR with closed domains made client, those of `resolved` left out.
pub(crate) const fn opened(guest_dacr: u32, resolved: u32) -> u32 {
    let closed = !guest_dacr & 0x5555_5555 & !resolved;
    guest_dacr & !(closed << 1) | closed
}

/// The views are kept apart by tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apart;

impl Apart {
    /// The part of a guest's DACR that fills bake into entries: which domains are manager (their entries are filled
    /// without the guest's permissions), and all of those that have no counterpart on the host.
    #[must_use]
    pub const fn baked_dacr(self, guest_dacr: u32) -> u32 {
        managers(guest_dacr, 0b11 << (2 * OWN_DOMAIN))
    }

    /// The most that the host's DACR may hold in a view while the guest's is `guest_dacr`: client where the guest says
    /// client or manager, client for the hypervisor's own domain 15, never manager. A subset (fewer domains open) is
    /// fine.
    #[must_use]
    pub const fn host_dacr(self, guest_dacr: u32, _: View) -> HostDacr {
        // Client is 0b01, manager 0b11, and the reserved 0b10 behaves as no access: the low bit of a field decides.
        HostDacr(guest_dacr & 0x5555_5555 & !client(OWN_DOMAIN) | client(OWN_DOMAIN))
    }

    /// `guest_dacr` with all domains client that are closed there and that the host's DACR closes: what entries are
    /// filled with is the same under both.
    #[must_use]
    pub const fn opened_dacr(self, guest_dacr: u32) -> u32 {
        opened(guest_dacr, 0b11 << (2 * OWN_DOMAIN))
    }

    /// Whose DACR, of [`Self::host_dacr`], is in force while `view` is: the kernel view's.
    #[must_use]
    pub const fn dacr_of(self, _view: View) -> View {
        View::Kernel
    }

    /// The domains that `guest_dacr` opens, of those that fills of the user view bake into entries: all. A bit of each,
    /// as [`Self::host_dacr`] has it.
    #[must_use]
    pub const fn open_to_user(self, guest_dacr: u32) -> u32 {
        guest_dacr & 0x5555_5555
    }

    /// The host's DACR in a view while the guest's MMU is off.
    #[must_use]
    pub const fn flat_dacr(self, _: View) -> HostDacr {
        HostDacr(client(OWN_DOMAIN))
    }

    /// Whether an entry of `view` is not for the guest's User mode: all of the kernel's view.
    pub(crate) fn is_privileged_alone(self, view: View, _: impl FnOnce() -> bool) -> bool {
        view == View::Kernel
    }

    /// The host's domain for an entry that comes from the guest's `domain`, or `None` for one of the flat map.
    /// `privileged_alone` as [`Self::is_privileged_alone`] has it.
    pub(crate) const fn domain(self, domain: Option<u8>, privileged_alone: bool) -> u8 {
        match domain {
            // Domain 15 is taken on the host, so that access to it is decided now, and again after each change of its
            // DACR field.
            Some(domain) if privileged_alone => domain,
            // The guest's DACR has no say over the flat space, and over the user view none while that is in force.
            _ => OWN_DOMAIN,
        }
    }

    /// A first-level entry of the hypervisor region for translated code: `kernel` as the hypervisor has it. `None` if
    /// it cannot be.
    pub(crate) const fn region_entry(self, kernel: u32, _: u32) -> Option<u32> {
        Some(kernel)
    }

    /// Which of a space's tables is that of `view`.
    pub(crate) const fn table_of(self, view: View) -> usize {
        view as usize
    }

    /// How many tables a space has.
    pub(crate) const fn tables(self) -> usize {
        2
    }
}
