//! How the two views of a guest are kept apart, and what the host's domains mean for it.
//!
//! *By tables*: each view has a table and an ASID of its own. The host's domains are the guest's.
//!
//! *By domains*, the way of ARMvisor (its single shadow table): one table for both. What only the guest's privileged mode may
//! reach is in other domains than what both may, and these are closed while user code runs. A change of worlds is a write of
//! DACR; what the kernel has touched of a process need not be found again by the process, and the other way round. In return,
//! what User mode may execute is executable while the kernel runs, as far as the guest's DACR is open; and only six of the
//! guest's domains have counterparts, the others are resolved when an entry is filled.
//!
//! | host domain | by tables | by domains |
//! |---|---|---|
//! | 0 to 5 | the guest's | the guest's, for both modes |
//! | 6 | the guest's | never |
//! | 7 | the guest's | both modes; the guest's domains from 6 up, and its flat map |
//! | 8 to 13 | the guest's | the guest's domains 0 to 5, for its privileged mode alone |
//! | 14 | the guest's | its privileged mode alone: its domains from 6 up, and what of the hole is for translated code |
//! | 15 | the hypervisor's; the guest's domain 15, and its flat map | the hypervisor's |

use crate::host::OWN_DOMAIN;
use crate::space::View;

/// How the views are kept apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Separation {
    /// A first-level table for each view.
    #[default]
    Tables,
    /// One first-level table, with domains that are closed while user code runs.
    Domains,
}

/// By domains: the first domain of the guest without one of the host's.
const FIRST_RESOLVED: u8 = 6;
/// By domains: what both modes may reach, whatever the guest's DACR.
const BOTH: u8 = 7;
/// By domains: what privileged mode alone may reach, whatever the guest's DACR.
const PRIVILEGED: u8 = 14;
/// Added to a domain of the guest for what its privileged mode alone may reach.
pub(crate) const PRIVILEGED_ALONE: u8 = 8;

pub(crate) const fn client(domain: u8) -> u32 {
    0b01 << (2 * domain)
}

/// A value for the host's DACR that is safe there: no domain is manager, so that the shadow's permissions hold, and the
/// hypervisor's own is client, so that it goes on. [`Separation`] makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct HostDacr(u32);

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

impl Separation {
    /// The part of a guest's DACR that fills bake into entries: which domains are manager (their entries are filled
    /// without the guest's permissions), and all of those that have no counterpart on the host.
    #[must_use]
    pub const fn baked_dacr(self, guest_dacr: u32) -> u32 {
        let manager = guest_dacr & guest_dacr >> 1 & 0x5555_5555;
        let resolved = match self {
            Self::Tables => 0b11 << (2 * OWN_DOMAIN),
            Self::Domains => !((1 << (2 * FIRST_RESOLVED)) - 1),
        };
        manager & !resolved | guest_dacr & resolved
    }

    /// The most that the host's DACR may hold in `view` while the guest's is `guest_dacr`: client where the guest says client or
    /// manager, client for the hypervisor's own domain 15, never manager. A subset (fewer domains open) is fine.
    #[must_use]
    pub const fn host_dacr(self, guest_dacr: u32, view: View) -> HostDacr {
        // Client is 0b01, manager 0b11, and the reserved 0b10 behaves as no access: the low bit of a field decides.
        let open = guest_dacr & 0x5555_5555;
        HostDacr(match (self, view) {
            (Self::Tables, _) => open & !client(OWN_DOMAIN) | client(OWN_DOMAIN),
            (Self::Domains, View::User) => open & Self::SHARED | self.flat_dacr(view).0,
            (Self::Domains, View::Kernel) => {
                let shared = open & Self::SHARED;
                shared | shared << (2 * PRIVILEGED_ALONE) | self.flat_dacr(view).0
            }
        })
    }

    pub(crate) const SHARED: u32 = (1 << (2 * FIRST_RESOLVED)) - 1;

    /// The host's DACR in `view` while the guest's MMU is off.
    #[must_use]
    pub const fn flat_dacr(self, view: View) -> HostDacr {
        HostDacr(match (self, view) {
            (Self::Tables, _) => client(OWN_DOMAIN),
            (Self::Domains, View::User) => client(BOTH) | client(OWN_DOMAIN),
            (Self::Domains, View::Kernel) => client(BOTH) | client(PRIVILEGED) | client(OWN_DOMAIN),
        })
    }

    /// The host's domain for an entry that comes from the guest's `domain`, or `None` for one of the flat map.
    /// `privileged_alone` says that the guest's User mode has not the same permission.
    pub(crate) const fn domain(self, domain: Option<u8>, privileged_alone: bool) -> u8 {
        match (self, domain) {
            // The guest's DACR has no say over the flat space; and domain 15 is taken on the host, so that access to
            // it is decided now, and again after each change of its DACR field.
            (Self::Tables, None) => OWN_DOMAIN,
            (Self::Tables, Some(domain)) => domain,
            (Self::Domains, Some(domain)) if domain < FIRST_RESOLVED => {
                domain + if privileged_alone { PRIVILEGED_ALONE } else { 0 }
            }
            (Self::Domains, _) if privileged_alone => PRIVILEGED,
            (Self::Domains, _) => BOTH,
        }
    }

    /// A first-level entry of the hole for translated code: `kernel` as the hypervisor has it, for a table of its own, `user`
    /// what is there for user code. `None` if the two cannot share a table.
    pub(crate) const fn hole_entry(self, kernel: u32, user: u32) -> Option<u32> {
        const DOMAIN: u32 = 0xf << 5;
        match self {
            Self::Tables => Some(kernel),
            Self::Domains if kernel == user => Some(kernel),
            Self::Domains if user == 0 => Some(kernel & !DOMAIN | (PRIVILEGED as u32) << 5),
            Self::Domains => None,
        }
    }

    /// Which of a space's tables is that of `view`.
    pub(crate) const fn table_of(self, view: View) -> usize {
        match self {
            Self::Tables => view as usize,
            Self::Domains => 0,
        }
    }

    /// How many tables a space has.
    pub(crate) const fn tables(self) -> usize {
        match self {
            Self::Tables => 2,
            Self::Domains => 1,
        }
    }
}
