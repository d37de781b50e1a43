//! Direct branches: `B`, `BL` and their conditional forms (STAR §5.1).

use super::{Flow, indirect};
use crate::at::At;
use crate::emit::Emitter;
use crate::options::Options;
use spica_addr::GuestVa;
use spica_isa::{Cond, Decoded};

/// An exit to `target`; a call sets LR to a constant.
pub fn direct(e: &mut Emitter<'_>, options: &Options, d: &Decoded, link: bool, target: GuestVa, at: At) -> Flow {
    if d.cond == Cond::Al {
        if link {
            indirect::set_link(e, options, at);
        }
        e.exit(target);
        return Flow::Ends;
    }
    if link {
        let skip = e.begin_skip(d.cond);
        indirect::set_link(e, options, at);
        e.exit(target);
        e.end_skip(skip);
    } else {
        e.side_exit(d.cond, target);
    }
    if options.side_exits { Flow::Continues } else { Flow::Splits }
}
