@ Notes on what code is for, in a section that is not loaded: parts.rs says what they mean. Each is about the place
@ where it stands.

.ifndef PARTS_KNOWN
.set PARTS_KNOWN, 1

.macro NOTE text
.Lnote\@:
    .pushsection .spica.parts, "", %progbits
    .4byte .Lnote\@
    .asciz "\text"
    .popsection
.endm

@ From here to the next of these, code counts as \row of \part.
.macro PART part, row
    NOTE "part|\part|\row"
.endm

@ The same; and each execution of the first instruction is an entry, which is counted.
.macro HANDLER part, row
    NOTE "handler|\part|\row"
.endm

@ The instruction here is executed once for each \event of crates/bench/src/events.rs.
.macro COUNTS event
    NOTE "count|\event"
.endm

@ Here assembly gives up, and what comes from here to the next GUEST_ENTRY is done by Rust, for what \reason says.
.macro RUST_ENTRY reason
    HANDLER slow, "to Rust: \reason"
    NOTE "rust|\reason"
.endm

@ The same for traps of translated code, each of which says itself what it is for.
.macro RUST_ENTRY_OF_TRAPS reason
    HANDLER slow, "to Rust: \reason"
    NOTE "traps|\reason"
.endm

@ Here the guest is entered.
.macro GUEST_ENTRY
    NOTE "guest"
.endm

.endif
