@ The registers of CP15 that a guest may see: which bits of them can be written, what user code may do with them, and
@ what is undefined. Not here: what identifies a core, what is the core's own (IMPLEMENTATION DEFINED), and bits that
@ only some cores have: the machine that this is compared with has another core.

    .include "runtime.inc"

    .global main
main:
    push {r4-r12, lr}
    bl storage
    bl sctlr
    bl timers
    bl maintenance
    bl translations
    bl undefined_ones
    bl conditional
    bl user_access
    pop {r4-r12, pc}

    @ Writes words of all kinds to a register, and shows what is read, as far as `mask` goes.
    .macro stored name, mask, opc1, crn, crm, opc2
    say "\n\name"
    mrc p15, \opc1, r5, \crn, \crm, \opc2
    ldr r6, =\mask
    .irp value, 0, 0xffffffff, 0x5a5a5a5a, 0xa5a5a5a5, 0x12345678
    ldr r4, =\value
    and r4, r4, r6
    mcr p15, \opc1, r4, \crn, \crm, \opc2
    isb
    mrc p15, \opc1, r0, \crn, \crm, \opc2
    show ., r0
    .endr
    mcr p15, \opc1, r5, \crn, \crm, \opc2
    isb
    .endm

storage:
    push {lr}
    stored ttbr0, 0xffffc000, 0, c2, c0, 0
    stored ttbr1, 0xffffc000, 0, c2, c0, 1
    stored ttbcr, 0x00000007, 0, c2, c0, 2
    stored dacr, 0xffffffff, 0, c3, c0, 0
    b 1f
    .ltorg
1:  stored dfsr, 0x000008ff, 0, c5, c0, 0
    stored ifsr, 0x0000040f, 0, c5, c0, 1
    stored dfar, 0xffffffff, 0, c6, c0, 0
    stored ifar, 0xffffffff, 0, c6, c0, 2
    stored par, 0xfffff001, 0, c7, c4, 0
    b 1f
    .ltorg
1:  stored prrr, 0xff0fffff, 0, c10, c2, 0
    stored nmrr, 0xffffffff, 0, c10, c2, 1
    stored contextidr, 0xffffffff, 0, c13, c0, 1
    stored tpidrurw, 0xffffffff, 0, c13, c0, 2
    stored tpidruro, 0xffffffff, 0, c13, c0, 3
    b 1f
    .ltorg
1:  stored tpidrprw, 0xffffffff, 0, c13, c0, 4
    stored vbar, 0xffffffff, 0, c12, c0, 0
    stored cpacr, 0x00f00000, 0, c1, c0, 2
    stored csselr, 0x00000003, 2, c0, c0, 0
    stored pmuserenr, 0x00000001, 0, c9, c14, 0
    pop {pc}

    .ltorg

@ Each bit of SCTLR that the architecture has for all cores, on and off, with no exception in between; then all of them.
sctlr:
    push {lr}
    say "\nsctlr"
    mrc p15, 0, r5, c1, c0, 0
    .irp bit, 1, 2, 11, 12, 13, 25, 28, 29, 30
    ldr r4, =(1 << \bit)
    orr r0, r5, r4
    set_sctlr r0
    mrc p15, 0, r1, c1, c0, 0
    bic r0, r5, r4
    set_sctlr r0
    mrc p15, 0, r2, c1, c0, 0
    set_sctlr r5
    eor r0, r1, r2
    show ., r0
    .endr
    @ Flags from SCTLR by R15: its bits 31:28.
    ldr r4, =(3 << 28)
    orr r0, r5, r4
    set_sctlr r0
    mrc p15, 0, r15, c1, c0, 0
    mrs r1, cpsr
    set_sctlr r5
    show flags, r1
    msr cpsr_f, #0
    pop {pc}

@ The generic timer: its compare registers are 64 bits, its timer values follow them, its status what is due.
timers:
    push {lr}
    say "\ntimers"
    mrc p15, 0, r0, c14, c0, 0
    show frequency, r0
    .macro timer name, op64, crm
    say "\n \name"
    ldr r4, =0x89abcdef
    ldr r5, =0x01234567
    mcrr p15, \op64, r4, r5, c14
    mrrc p15, \op64, r0, r1, c14
    show ., r0
    show ., r1
    @ Off, masked, on; far in the future and in the past.
    mov r6, #0
1:  mcr p15, 0, r6, c14, \crm, 1
    isb
    mrc p15, 0, r0, c14, \crm, 1
    show ctl, r0
    add r6, r6, #1
    cmp r6, #4
    blo 1b
    mov r4, #0
    mcrr p15, \op64, r4, r4, c14
    isb
    mrc p15, 0, r0, c14, \crm, 1
    show past, r0
    @ A timer value is a signed difference from now.
    ldr r4, =0x7fff0000
    mcr p15, 0, r4, c14, \crm, 0
    isb
    mrc p15, 0, r0, c14, \crm, 1
    show future, r0
    mrc p15, 0, r0, c14, \crm, 0
    sub r0, r4, r0
    lsr r0, r0, #24                 @ less than a quarter of a second ago
    show ago, r0
    ldr r4, =0xf0000000
    mcr p15, 0, r4, c14, \crm, 0
    isb
    mrc p15, 0, r0, c14, \crm, 1
    show past, r0
    mov r4, #0
    mcr p15, 0, r4, c14, \crm, 1
    .endm
    timer physical, 2, c2
    timer virtual, 3, c3
    @ Both counters advance, and the virtual one has no offset.
    mrrc p15, 0, r4, r5, c14
    mrrc p15, 1, r6, r7, c14
    mrrc p15, 0, r8, r9, c14
    subs r0, r6, r4
    sbcs r1, r7, r5
    movlo r0, #0
    movhs r0, #1
    show counts, r0
    subs r0, r8, r6
    sbcs r1, r9, r7
    movlo r0, #0
    movhs r0, #1
    show counts, r0
    pop {pc}

    .ltorg

    @ R10 collects a bit for each: whether it was undefined.
    .macro try instruction:vararg
    mov r11, #0
    \instruction
    orr r10, r11, r10, lsl #1
    .endm
    .macro tried name
    show \name, r10
    mov r10, #0
    .endm

@ Maintenance, of all of caches, branch predictor and TLB, by address in RAM, by ASID, by set and way: none is
@ undefined.
maintenance:
    push {lr}
    say "\nmaintenance"
    vectors_at counting_vectors
    mov r10, #0
    ldr r0, =SCRATCH
    .irp op, "c5, 0", "c5, 1", "c5, 4", "c5, 6", "c5, 7", "c6, 1", "c10, 1", "c10, 4", "c10, 5", "c11, 1", "c14, 1"
    try mcr p15, 0, r0, c7, \op
    .endr
    tried caches
    mov r0, #0
    .irp op, "c6, 2", "c10, 2", "c14, 2"
    try mcr p15, 0, r0, c7, \op
    .endr
    tried sets
    ldr r0, =SCRATCH
    .irp op, "c5, 0", "c5, 1", "c5, 2", "c6, 0", "c6, 1", "c6, 2", "c7, 0", "c7, 1", "c7, 2", "c7, 3"
    try mcr p15, 0, r0, c8, \op
    .endr
    tried tlb
    vectors_at vectors
    pop {pc}

@ Address translation with the MMU off: the address itself.
translations:
    push {lr}
    say "\ntranslations"
    .irp op, 0, 1, 2, 3
    ldr r0, =SCRATCH + 0x123
    mcr p15, 0, r0, c7, c8, \op
    isb
    mrc p15, 0, r0, c7, c4, 0
    ldr r1, =0xfffff001
    and r0, r0, r1
    show ., r0
    .endr
    pop {pc}

@ What no core has, and coprocessors that are not there.
undefined_ones:
    push {lr}
    say "\nundefined"
    vectors_at counting_vectors
    mov r10, #0
    try mrc p15, 0, r0, c4, c0, 0
    try mrc p15, 7, r0, c1, c0, 0
    try mcr p15, 0, r0, c1, c0, 5
    try mrc p15, 0, r0, c2, c1, 0
    try mcr p15, 0, r0, c13, c0, 5
    try mrc p15, 0, r0, c13, c1, 0
    try mrrc p15, 7, r0, r1, c14
    try mcrr p15, 5, r0, r1, c14
    try mcrr p15, 1, r0, r1, c14    @ a counter is only read
    tried cp15
    try mrc2 p15, 0, r0, c1, c0, 0
    try mcr2 p15, 0, r0, c3, c0, 0
    try cdp p15, 0, c0, c0, c0, 0
    try ldc p15, c0, [sp, #-4]
    try stc p15, c0, [sp, #-4]
    try ldc2 p15, c0, [sp, #-4]
    tried forms
    try mrc p0, 0, r0, c0, c0, 0
    try mrc p7, 0, r0, c0, c0, 0
    try mcr p9, 0, r0, c0, c0, 0
    try mcrr p8, 0, r0, r1, c0
    try cdp p3, 0, c0, c0, c0, 0
    try stc p2, c0, [sp, #-4]
    tried others
    vectors_at vectors
    pop {pc}

@ A condition that fails: no access, no exception.
conditional:
    push {lr}
    say "\nconditional"
    vectors_at counting_vectors
    mov r10, #0
    mov r4, #0x1100
    mcr p15, 0, r4, c13, c0, 1
    mov r5, #7
    cmp r4, r4
    try mcrne p15, 0, r5, c13, c0, 1
    try mrcne p15, 0, r5, c13, c0, 1
    try mrcne p15, 7, r5, c1, c0, 0
    cmp r4, r4
    try mrceq p15, 7, r5, c1, c0, 0
    tried ne
    show kept, r5
    mrceq p15, 0, r5, c13, c0, 1
    show contextidr, r5
    mov r4, #0
    mcr p15, 0, r4, c13, c0, 1
    vectors_at vectors
    pop {pc}

    .ltorg

@ From user code, with and without access to the counters.
user_access:
    push {lr}
    say "\nuser"
    vectors_at counting_vectors
    mov r4, #0x33
    mcr p15, 0, r4, c13, c0, 3
    .irp access, 0, 1, 2, 3
    mov r4, #\access
    mcr p15, 0, r4, c14, c1, 0
    isb
    user by_user
    tried \access
    .endr
    mov r4, #0
    mcr p15, 0, r4, c14, c1, 0
    mrc p15, 0, r0, c13, c0, 2
    show tpidrurw, r0
    mrc p15, 0, r0, c13, c0, 3
    show tpidruro, r0
    vectors_at vectors
    pop {pc}
by_user:
    mov r10, #0
    try mrc p15, 0, r0, c1, c0, 0
    try mcr p15, 0, r0, c2, c0, 0
    try mrc p15, 0, r0, c3, c0, 0
    try mcr p15, 0, r0, c5, c0, 0
    try mrc p15, 0, r0, c0, c0, 0
    try mcr p15, 0, r0, c7, c5, 0   @ ICIALLU
    try mcr p15, 0, r0, c8, c7, 0
    try mrc p15, 0, r0, c13, c0, 1
    try mrc p15, 0, r0, c13, c0, 4
    mov r0, #0x44
    try mcr p15, 0, r0, c13, c0, 3  @ read only
    try mcr p15, 0, r0, c13, c0, 2  @ its own
    try mrc p15, 0, r1, c13, c0, 2
    try mrc p15, 0, r2, c13, c0, 3
    try mcr p15, 0, r0, c7, c5, 4   @ the barriers as they were of old
    try mcr p15, 0, r0, c7, c10, 4
    try mcr p15, 0, r0, c7, c10, 5
    try mrrc p15, 0, r0, r1, c14    @ as CNTKCTL permits
    try mrrc p15, 1, r0, r1, c14
    try mrc p15, 0, r0, c14, c0, 0
    try mrc p15, 0, r0, c14, c3, 1
    svc #LEAVE

    .balign 32
counting_vectors:
    b .
    b undefined
    b counting_svc
    b .
    b .
    b .
    b .
    b .
undefined:
    mov r11, #1
    movs pc, lr
counting_svc:
    ldr r0, =user_caller
    ldr sp, [r0]
    pop {r4-r9}                     @ but R10, and what is above it
    add sp, sp, #12
    pop {pc}
    .ltorg
