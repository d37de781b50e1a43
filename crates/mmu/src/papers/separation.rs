//! How the two views of a guest are kept apart: by tables (`Apart`) or by domains.
//!
//! *By domains*, the way of ARMvisor (its single shadow table): one table for both. What only the guest's privileged
//! mode may reach is in other domains than what both may, and these are closed while user code runs. A privilege switch
//! is a write of DACR; what the kernel has touched of a process need not be found again by the process, and the other
//! way round. In return, what User mode may execute is executable while the kernel runs, as far as the guest's DACR is
//! open; and only six of the guest's domains have counterparts, the others are resolved when an entry is filled.
//!
//! | host domain | by tables, kernel view | by domains |
//! |---|---|---|
//! | 0 to 5 | the guest's | the guest's, for both modes |
//! | 6 | the guest's | never |
//! | 7 | the guest's | both modes; the guest's domains from 6 up, and its flat map |
//! | 8 to 13 | the guest's | the guest's domains 0 to 5, for its privileged mode alone |
//! | 14 | the guest's | its privileged mode alone: its domains from 6 up, and the region's part for translated code |
//! | 15 | the hypervisor's; the guest's domain 15, and its flat map; all of the user view | the hypervisor's |

use crate::host::OWN_DOMAIN;
use crate::separation::{Apart, HostDacr, client, managers, opened};
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
const PRIVILEGED_ALONE: u8 = 8;

/// By domains, in a DACR: the bits of client (and of manager) of all domains of the guest that have a counterpart.
const SHARED: u32 = (1 << (2 * FIRST_RESOLVED)) - 1;

/// Numbers for trap handlers in assembly.
pub mod assembly {
    /// In a DACR: the bits of client of all domains of the guest that have a counterpart where domains keep the views
    /// apart.
    pub const SHARED_CLIENTS: u32 = 0x5555_5555 & super::SHARED;
    /// Added to a domain for what privileged mode alone may reach, where domains keep the views apart.
    pub const PRIVILEGED_ALONE: u32 = super::PRIVILEGED_ALONE as u32;
}

impl Separation {
    /// As `Apart::baked_dacr`.
    #[must_use]
    pub const fn baked_dacr(self, guest_dacr: u32) -> u32 {
        match self {
            Self::Tables => Apart.baked_dacr(guest_dacr),
            Self::Domains => managers(guest_dacr, !SHARED),
        }
    }

    /// As `Apart::host_dacr`.
    #[must_use]
    pub const fn host_dacr(self, guest_dacr: u32, view: View) -> HostDacr {
        let shared = guest_dacr & 0x5555_5555 & SHARED;
        match (self, view) {
            (Self::Tables, _) => Apart.host_dacr(guest_dacr, view),
            (Self::Domains, View::User) => HostDacr(shared | self.flat_dacr(view).0),
            (Self::Domains, View::Kernel) => {
                HostDacr(shared | shared << (2 * PRIVILEGED_ALONE) | self.flat_dacr(view).0)
            }
        }
    }

    /// As `Apart::opened_dacr`.
    #[must_use]
    pub const fn opened_dacr(self, guest_dacr: u32) -> u32 {
        match self {
            Self::Tables => Apart.opened_dacr(guest_dacr),
            Self::Domains => opened(guest_dacr, !SHARED),
        }
    }

    /// As `Apart::dacr_of`.
    #[must_use]
    pub const fn dacr_of(self, view: View) -> View {
        match self {
            Self::Tables => Apart.dacr_of(view),
            Self::Domains => view,
        }
    }

    /// As `Apart::open_to_user`: by domains, nothing that [`Self::baked_dacr`] does not have.
    #[must_use]
    pub const fn open_to_user(self, guest_dacr: u32) -> u32 {
        match self {
            Self::Tables => Apart.open_to_user(guest_dacr),
            Self::Domains => 0,
        }
    }

    /// As `Apart::flat_dacr`.
    #[must_use]
    pub const fn flat_dacr(self, view: View) -> HostDacr {
        match (self, view) {
            (Self::Tables, _) => Apart.flat_dacr(view),
            (Self::Domains, View::User) => HostDacr(client(BOTH) | client(OWN_DOMAIN)),
            (Self::Domains, View::Kernel) => HostDacr(client(BOTH) | client(PRIVILEGED) | client(OWN_DOMAIN)),
        }
    }

    /// Whether an entry of `view` is not for the guest's User mode: by domains, if that has not the same permission.
    pub(crate) fn is_privileged_alone(self, view: View, differs: impl FnOnce() -> bool) -> bool {
        match self {
            Self::Tables => Apart.is_privileged_alone(view, differs),
            Self::Domains => differs(),
        }
    }

    /// As `Apart::domain`. `privileged_alone` as [`Self::is_privileged_alone`] has it.
    pub(crate) const fn domain(self, domain: Option<u8>, privileged_alone: bool) -> u8 {
        match (self, domain) {
            (Self::Tables, _) => Apart.domain(domain, privileged_alone),
            (Self::Domains, Some(domain)) if domain < FIRST_RESOLVED => {
                domain + if privileged_alone { PRIVILEGED_ALONE } else { 0 }
            }
            (Self::Domains, _) if privileged_alone => PRIVILEGED,
            (Self::Domains, _) => BOTH,
        }
    }

    /// As `Apart::region_entry`; `user` is what is there for user code. `None` if the two cannot share a table.
    pub(crate) const fn region_entry(self, kernel: u32, user: u32) -> Option<u32> {
        const DOMAIN: u32 = 0xf << 5;
        match self {
            Self::Tables => Apart.region_entry(kernel, user),
            Self::Domains if kernel == user => Some(kernel),
            Self::Domains if user == 0 => Some(kernel & !DOMAIN | (PRIVILEGED as u32) << 5),
            Self::Domains => None,
        }
    }

    /// Which of a space's tables is that of `view`.
    pub(crate) const fn table_of(self, view: View) -> usize {
        match self {
            Self::Tables => Apart.table_of(view),
            Self::Domains => 0,
        }
    }

    /// How many tables a space has.
    pub(crate) const fn tables(self) -> usize {
        match self {
            Self::Tables => Apart.tables(),
            Self::Domains => 1,
        }
    }
}
