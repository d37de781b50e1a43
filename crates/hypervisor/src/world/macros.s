@ What all files here use.

@ From the tables in force to those of \ttbr0 and \contextidr, by way of the table that has the hypervisor region alone:
@ all its entries are global, so that nothing can be remembered under an ASID that it does not belong to (ARM ARM
@ B3.10.4). In: \region = that table's TTBR0. Out: synchronised, but for the last write: an ISB or an exception return
@ is to come before anything is used that is not in the hypervisor region (B3.15.5).
.macro CHANGE_TABLES region, ttbr0, contextidr
    mcr p15, 0, \region, c2, c0, 0  @ TTBR0
    isb
    dsb                             @ no walk of before ends after this (Cortex-A9 erratum 754322), and walks from
                                    @ now on see what was written to tables (B3.10.1), on each core
    mcr p15, 0, \contextidr, c13, c0, 1
    isb
    mcr p15, 0, \ttbr0, c2, c0, 0
.endm

@ To the host address space, where RAM is at its physical address, for a walk of the guest's tables (B3.5.1). Out: R3 =
@ the guest's TTBR0, R4 = where it has its RAM, R5 = how much.
.macro BEGIN_WALK
    ldr r3, [sp, #CTX_HOST_TTBR0]
    mov r4, #HOST_ASID
    ldr r5, [sp, #CTX_REGION_TTBR0]
    CHANGE_TABLES r5, r3, r4
    isb
    ldr r3, [sp, #CTX_GUEST_TTBR0]
    WORDS CTX_RAM_BASE, CTX_RAM_SIZE
    ldrd r4, r5, [sp, #CTX_RAM_BASE]
.endm

@ Words that one LDM, LDRD or a row of loads takes: each is behind the one before it.
.macro WORDS first, second, more:vararg
    .if (\second) - (\first) != 4
    .error "these are not behind each other: \first, \second"
    .endif
    .ifnb \more
    WORDS \second, \more
    .endif
.endm
