@ Aborts of guest user code that are answered without leaving assembly: the guest's own, which it takes at its vector,
@ and pages that its tables have and the shadow has not yet.
@
@ This is vm/trap/fast_abort.rs and Shadow::fast_fill once more, for the frequent of their cases: small pages that are
@ not global, of a client domain, in a megabyte where the user view has such pages already. All else takes the slow
@ path, with nothing changed: the aborts are as they were, because nothing here faults. The trust rule: the guest's
@ tables, and TTBR0, are checked against its RAM before they are followed, and what they lead to again.
@
@ Conditions that hold for long are in one word, Context::fast_faults: see Vcpu::learn_views. Numbers of the shadow's
@ descriptors are those of spica_mmu::host, numbers of the hints those of Shadow::page_hints (spica_mmu::assembly).

.equ NOT_GLOBAL, 0x800              @ ARM ARM B3.5.1

.section .text.world, "ax"
.arm

@ One handler for each kind of abort, in straight line; where a fetch differs from an access to data, \data says so.
@ In: SP = the Cpu, LR and SPSR as the abort left them. Out: the instruction again; the block at \entry, as kernel
@ code; or user_\kind, with nothing changed. Saves R0 to R10 and uses them; R11 to R14 are the guest's.
.macro USER_ABORT kind, aborts, adjust, data, fault_status, fault_address, entry
    HANDLER fast, "\aborts of user code"
answer_\kind:
    stmia sp, {{r0-r10}}
    mrs r0, spsr
    ldr r7, [sp, #CTX_FAST_FAULTS]
    .if \data
    mrc p15, 0, r1, c5, c0, 0       @ DFSR
    .else
    mrc p15, 0, r1, c5, c0, 1       @ IFSR
    .endif
    tst r0, #NOT_USR                @ User mode; any other is found behind user_\kind
    teqeq r7, #1
    bne \kind\()_unanswered
    eor r2, r1, #5                  @ translation and permission faults: 0b00101, 0b00111, 0b01101, 0b01111
    tst r2, #5
    tsteq r2, #0x400
    bne \kind\()_of_no_table
    @ R0 = address, R1 and R2: the bits of a guest's small page that decide (AP, XN), and what they must be.
    .if \data
    mrc p15, 0, r0, c6, c0, 0       @ DFAR
    tst r1, #0x800                  @ WnR
    mov r1, #0x20                   @ AP[1]: readable
    mov r2, #0x20
    movne r1, #0x230                @ AP[2:0] = 0b011: writable
    movne r2, #0x30
    .else
    mrc p15, 0, r0, c6, c0, 2       @ IFAR
    mov r1, #0x21                   @ readable, and not XN
    mov r2, #0x20
    .endif
    cmp r0, #REGION_MIN             @ the tables there are not the guest's
    bhs \kind\()_unanswered

    BEGIN_WALK
    ldr r6, [sp, #CTX_RAM_HOST]     @ where that is
    bfc r3, #0, #14
    sub r3, r3, r4
    cmp r3, r5
    bhs \kind\()_from_host_space
    add r3, r3, r6
    lsr r7, r0, #20
    ldr r3, [r3, r7, lsl #2]        @ the first-level entry
    ldr r9, [sp, #CTX_PAGE]
    and r8, r3, #3
    ubfx r7, r3, #5, #4             @ its domain
    cmp r8, #1
    bne \kind\()_no_table
    bfc r3, #0, #10
    sub r3, r3, r4
    cmp r3, r5
    bhs \kind\()_from_host_space
    add r3, r3, r6
    ubfx r8, r0, #12, #8
    ldr r3, [r3, r8, lsl #2]        @ the second-level entry
    ldr r10, [r9, #PAGE_DACR]
    tst r3, #3
    beq \kind\()_no_page
    lsr r10, r10, r7
    lsr r10, r10, r7
    and r10, r10, #3
    tst r3, #2                      @ a small page
    beq \kind\()_from_host_space
    cmp r10, #1                     @ of a client domain
    bne \kind\()_from_host_space
    .if BY_DOMAINS
    cmp r7, #(BAKED_FROM / 2)       @ those above have no counterpart
    bhs \kind\()_from_host_space
    .endif
    and r10, r3, r1
    cmp r10, r2
    bne \kind\()_no_permission

    @ They allow the access. R3 = second-level entry, R4 to R6 = RAM, R7 = domain, R8 = its index.
    ldr r9, [sp, #CTX_PRIVATE]
    lsr r1, r0, #25
    lsr r2, r0, #20
    ldr r9, [r9, r1, lsl #2]
    and r1, r2, #31
    lsr r9, r9, r1
    tst r3, #NOT_GLOBAL
    tstne r9, #1
    beq \kind\()_from_host_space
    ldr r9, [sp, #CTX_USER + VIEW_TTBR0]
    ldr r10, [sp, #CTX_TABLE_OFFSET]
    bfc r9, #0, #14
    add r9, r9, r10
    ldr r9, [r9, r2, lsl #2]        @ the shadow's first-level entry
    and r1, r9, #3
    ubfx r2, r9, #5, #4
    cmp r1, #1
    .if BY_DOMAINS
    cmpeq r2, r7
    .else
    cmpeq r2, #USER_VIEW_DOMAIN
    .endif
    bne \kind\()_from_host_space
    bfc r9, #0, #10
    add r9, r9, r10
    ldr r1, [r9, r8, lsl #2]!       @ the shadow's second-level entry
    sub r4, r3, r4
    cmp r1, #0
    bne \kind\()_from_host_space
    cmp r4, r5
    bhs \kind\()_from_host_space
    ldr r5, [sp, #CTX_HINTS]
    lsr r7, r4, #12
    and r1, r3, #0x230
    ldr r7, [r5, r7, lsl #2]!
    and r2, r3, #SHADOW_PAGE_XN     @ the guest's is at the same place
    cmp r1, #0x30
    bne 2f
    orr r2, r2, #SHADOW_PAGE_WRITABLE
    lsr r1, r0, #12
    cmp r7, r1
    cmnne r7, #-HINT_ANYWHERE
    beq 3f
    cmn r7, #-HINT_NOWHERE
    bne 4f
    str r1, [r5]
    b 3f
4:  bic r8, r7, #HINT_AND_LINEAR         @ there, and in the linear map
    cmp r8, r1
    beq 3f
    lsrs r8, r7, #20                @ other numbers, and hints that are none: the place below may wrap to any of these
    bne 5f
    lsr r8, r4, #12
    sub r10, r5, r8, lsl #2
    ldr r10, [r10, #-4]
    add r10, r10, r8
    cmp r10, r7                     @ in the linear map alone
    bne 7f
    orr r1, r1, #HINT_AND_LINEAR
    str r1, [r5]
    b 3f
5:  eor r7, r7, #HINT_ALIASED
    cmp r7, #MAX_ALIASED
    bhs \kind\()_from_host_space
    ldr r10, [sp, #CTX_ALIASES]
    .if ALIASES_KNOWN != 4 || ALIASES_RETURNS != 16 || ALIASES_BYTES != 20
    .error "here are four numbers and a count for each"
    .endif
    add r7, r7, r7, lsl #2          @ five words for each
    add r10, r10, r7, lsl #2
    ldr r5, [r10]
    ldr r7, [r10, #4]
    ldr r8, [r10, #8]
    cmp r5, r1
    cmpne r7, r1
    ldr r7, [r10, #12]
    ldr r5, [r10, #ALIASES_RETURNS]
    cmpne r8, r1
    cmpne r7, r1
    bne 8f
    add r5, r5, #1
    sub r7, r5, #1
    cmp r5, #ALIASES_LOOK
    blo 6f
    tst r5, r7
    beq \kind\()_from_host_space    @ it is time to look whether all of them are of use
6:  str r5, [r10, #ALIASES_RETURNS]
    b 3f
8:  cmn r8, #-UNUSED                @ one more
    streq r1, [r10, #8]
    beq 3f
    cmn r7, #-UNUSED
    bne \kind\()_from_host_space
    str r1, [r10, #12]
    b 3f
7:  ldr r10, [sp, #CTX_ALIASES]     @ there, and at one other
    mov r8, #0
    ldr r3, [r10]
    cmp r3, r8
    beq \kind\()_from_host_space
    orr r0, r3, #HINT_ALIASED
    str r0, [r5]
    add r3, r3, r3, lsl #2
    add r3, r10, r3, lsl #2
    ldr r0, [r3]
    str r0, [r10]
    mov r0, #UNUSED
    str r7, [r3]
    str r1, [r3, #4]
    str r0, [r3, #8]
    str r0, [r3, #12]
    str r8, [r3, #ALIASES_RETURNS]
    b 3f
2:  cmn r7, #-HINT_GUARDED          @ nobody may write there, or the page is not there
    beq \kind\()_from_host_space
3:  bfc r4, #0, #12
    orr r2, r2, #(SHADOW_PAGE & 0xff)
    add r4, r4, r6
    orr r2, r2, #(SHADOW_PAGE & 0xff00)
    orr r2, r2, r4
    str r2, [r9]
    mcr p15, 0, r9, c7, c11, 1      @ DCCMVAU: table walks need not look into the data cache (B3.10.1)
    COUNT CTX_USER_FILLS
    ldrd r2, r3, [sp, #CTX_USER + VIEW_TTBR0]   @ and VIEW_CONTEXTIDR
    ldr r4, [sp, #CTX_REGION_TTBR0]
    CHANGE_TABLES r4, r2, r3        @ with the DSB that completes the cleaning; the return synchronises
    ldmia sp, {{r0-r10}}
    subs pc, lr, #\adjust

    @ In: host address space. Back to the user view's tables, and the slow path. Uses R2 to R4.
\kind\()_from_host_space:
    ldrd r2, r3, [sp, #CTX_USER + VIEW_TTBR0]   @ and VIEW_CONTEXTIDR
    ldr r4, [sp, #CTX_REGION_TTBR0]
    CHANGE_TABLES r4, r2, r3
    isb
\kind\()_unanswered:
    ldmia sp, {{r0-r10}}
    b user_\kind

    @ The guest takes it (B1.9.7, B1.9.8), if its vector is translated. In: R0 = address, R2 = what \data says of a
    @ store, R7 = domain, R8 = the first-level entry's kind, R9 = the vCPU page.
\kind\()_no_table:
    cmp r8, #0
    bne \kind\()_from_host_space
    mov r7, #0                      @ the domain says nothing
    mov r1, #FS_TRANSLATION_SECTION
    b 1f
\kind\()_no_page:
    mov r1, #FS_TRANSLATION_PAGE
    b 1f
\kind\()_no_permission:
    mov r1, #FS_PERMISSION_PAGE
1:  ldr r4, [sp, #\entry]
    ldr r5, [sp, #CTX_CALL_FLOOR]
    mov r3, r0
    .if \data
    orr r1, r1, r7, lsl #4
    tst r2, #0x10
    orrne r1, r1, #0x800            @ WnR
    .endif
    mov r2, r1
    cmp r4, r5                      @ as in user_supervisor_call
    blo \kind\()_from_host_space
    mrs r0, spsr
    b world_deliver_\kind

    @ What no table has caused. An alignment fault (0b00001, table B3-23) is the guest's own, whatever is mapped there,
    @ because it comes before all others (B3.12.1). In: R1 = the status.
\kind\()_of_no_table:
    .if \data
    eor r2, r1, #FS_ALIGNMENT
    tst r2, #0xf
    tsteq r2, #0x400
    bne \kind\()_unanswered
    ldr r4, [sp, #\entry]
    ldr r5, [sp, #CTX_CALL_FLOOR]
    ldr r9, [sp, #CTX_PAGE]
    and r2, r1, #0x800              @ WnR
    cmp r4, r5                      @ as in user_supervisor_call
    blo \kind\()_unanswered
    orr r2, r2, #FS_ALIGNMENT
    mrc p15, 0, r3, c6, c0, 0       @ DFAR
    .else
    b \kind\()_unanswered
    .endif
.global world_deliver_\kind
    HANDLER fast, "\aborts that the guest takes"
    COUNTS "trap.guest-abort"
@ In: R0 = SPSR, R2 = the status, R3 = the address, R4 = the block at \entry, R9 = the vCPU page; V: TPIDRURW is lent.
world_deliver_\kind:
    WORDS PAGE_\fault_status, PAGE_\fault_address
    strd r2, r3, [r9, #PAGE_\fault_status]     @ and the address
    str r2, [sp, #CPU_\fault_status]
    str r3, [sp, #CPU_\fault_address]
    TAKE_EXCEPTION r9, BANK_ABT, ENTRY_ABT
    COUNT CTX_USER_ABORTS
    ENTER_KERNEL r9, 11, 1, 1
.endm

    USER_ABORT data_abort, "data aborts", 8, 1, DFSR, DFAR, CTX_DATA_ABORT_ENTRY
    USER_ABORT prefetch_abort, "prefetch aborts", 4, 0, IFSR, IFAR, CTX_PREFETCH_ABORT_ENTRY
    .ltorg
