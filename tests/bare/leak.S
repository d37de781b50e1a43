@ Hunts for what passes from one guest to another in the registers and translations of the core, which they share.
@ Parameters: who this is; rounds; 1 where alignment checks cannot be tested.
@
@ An *owner* (parameter 0 is not 0, but below 256: the seed of its values) fills all state that it can reach, and looks
@ after each while whether it is as it was. A *visitor* (0) finds what a reset leaves, and writes nothing: whatever else
@ it ever sees is somebody else's.

    .include "runtime.inc"
    .include "tables.inc"
    .fpu neon

    .equ READ_ONLY, 0x40400000      @ a megabyte that clients of domain 0 must not write
    .equ MONITORED, SCRATCH + 0x80000
    .equ FOUND, SCRATCH             @ state as it is
    .equ KEPT, SCRATCH + 0x1000     @ state as it should be
    .equ WORDS, 64 + 1 + 4
    .equ MARK, 0x5ec4e700           @ and a seed

    .global main
main:
    push {r4-r12, lr}
    vectors_at leak_vectors
    get r11, parameters
    mov r0, #0xf00000
    mcr p15, 0, r0, c1, c0, 2
    isb
    mov r0, #0x40000000
    vmsr fpexc, r0
    bl foreign_memory
    bl flat_tables
    ldr r0, =TABLES + (READ_ONLY >> 18)
    ldr r1, =READ_ONLY + FLAT + 0x8000
    str r1, [r0]
    bl map_window
    bl mmu_on
    mov r0, #1                      @ the same for all
    set_contextidr r0
    cmp r11, #0
    bleq no_values
    blne values
    say "up\n"
    get r10, parameters + 4
1:  bl pause
    bl state
    bl compare
    bl permissions
    bl alignment
    bl window
    bl reach
    subs r10, r10, #1
    bne 1b
    say "looked"
    get r0, strange
    show strange, r0
    get r0, wrong_rights
    show rights, r0
    get r0, wrong_alignment
    show alignment, r0
    get r0, reserved
    show reserved, r0
    get r0, foreign
    show foreign, r0
    get r0, wrong_window
    show window, r0
    get r0, reached
    show reached, r0
    say "\n"
    bl quiet
    pop {r4-r12, pc}

@ MMU off, as the way out wants it.
quiet:
    vectors_at vectors
    ldr r0, =0x00c50078
    set_sctlr r0
    bx lr

@ Some milliseconds without a trap; others run in between. The owner has a reservation nearly all the time. The visitor
@ never makes one: its stores-exclusive must fail.
pause:
    ldr r4, =MONITORED
    ldr r5, =600000
    mov r0, #0
    mov r6, #0
    cmp r11, #0
    beq 2f
1:  ldrex r0, [r4]
    subs r5, r5, #1
    bne 1b
    bx lr
2:  strex r1, r0, [r4]
    eor r1, r1, #1
    add r6, r6, r1
    subs r5, r5, #1
    bne 2b
    get r0, reserved
    add r0, r0, r6
    put reserved, r0, r1
    bx lr

@ FOUND: D0 to D31, FPSCR, the thread IDs as the kernel and as user code have them.
state:
    push {lr}
    ldr r0, =FOUND
    vstmia r0!, {d0-d15}
    vstmia r0!, {d16-d31}
    vmrs r1, fpscr
    mrc p15, 0, r2, c13, c0, 2
    mrc p15, 0, r3, c13, c0, 3
    stm r0, {r1-r3}
    ldr r0, =FOUND + 4 * (WORDS - 2)
    msr spsr_cxsf, #MODE_USR
    adr lr, user_part
    movs pc, lr
user_part:
    mrc p15, 0, r1, c13, c0, 2
    mrc p15, 0, r2, c13, c0, 3
    svc #LEAVE
back_in_kernel:
    stm r0, {r1, r2}
    pop {pc}

@ Compares FOUND and KEPT.
compare:
    ldr r0, =FOUND
    ldr r1, =KEPT
    mov r2, #WORDS
1:  ldr r3, [r0], #4
    ldr r4, [r1], #4
    cmp r3, r4
    bne 2f
    subs r2, r2, #1
    bne 1b
    bx lr
2:  push {lr}
    say "strange"
    rsb r2, r2, #WORDS
    show word, r2
    show found, r3
    show kept, r4
    say "\n"
    get r0, strange
    add r0, r0, #1
    put strange, r0, r1
    pop {pc}

@ The visitor's: all zero.
no_values:
    ldr r0, =KEPT
    mov r1, #0
    mov r2, #WORDS
1:  str r1, [r0], #4
    subs r2, r2, #1
    bne 1b
    cmp r11, #0
    bx lr

@ The owner's: from its seed, in the core and in KEPT. It is a manager of domain 0, and has accesses checked for
@ alignment.
values:
    push {lr}
    put seed, r11, r0
    ldr r4, =KEPT
    mov r5, #WORDS
1:  bl random
    str r0, [r4], #4
    subs r5, r5, #1
    bne 1b
    ldr r4, =KEPT
    vldmia r4!, {d0-d15}
    vldmia r4!, {d16-d31}
    ldr r0, [r4]
    ldr r1, =0x03c00000             @ rounding, flush to zero, default NaN
    and r0, r0, r1
    str r0, [r4], #4
    vmsr fpscr, r0
    ldm r4!, {r0, r1}
    mcr p15, 0, r0, c13, c0, 2
    mcr p15, 0, r1, c13, c0, 3
    stm r4, {r0, r1}                @ user code reads the same
    mov r0, #3
    set_dacr r0
    get r0, parameters + 8
    cmp r0, #0
    ldr r0, =SCTLR
    orreq r0, r0, #2
    set_sctlr r0
    pop {pc}

@ A store that a manager may do and a client not.
permissions:
    push {lr}
    mov r0, #0
    put aborts, r0, r1
    ldr r0, =READ_ONLY
    str r0, [r0]
    get r0, aborts
    cmp r11, #0
    moveq r1, #1
    movne r1, #0
    cmp r0, r1
    get r0, wrong_rights
    addne r0, r0, #1
    put wrong_rights, r0, r1
    pop {pc}

@ A load that is not aligned.
alignment:
    push {lr}
    get r0, parameters + 8
    cmp r0, #0
    popne {pc}
    put aborts, r0, r1
    ldr r0, =SCRATCH + 0x2001
    ldr r0, [r0]
    get r0, aborts
    cmp r11, #0
    moveq r1, #0
    movne r1, #1
    cmp r0, r1
    get r0, wrong_alignment
    addne r0, r0, #1
    put wrong_alignment, r0, r1
    pop {pc}

@ The owner's address space has two pages at WINDOW, one of its ASID and a global one. The visitor's has none.
map_window:
    ldr r0, =LEVEL2
    add r1, r0, #0x400
    mov r2, #0
1:  str r2, [r0], #4
    cmp r0, r1
    blo 1b
    cmp r11, #0
    bxeq lr
    ldr r0, =LEVEL2
    ldr r1, =SCRATCH + 0x3832       @ small page, for all, nG
    str r1, [r0]
    ldr r1, =SCRATCH + 0x4032
    str r1, [r0, #4]
    ldr r1, =LEVEL2 + 1
    ldr r0, =TABLES + (WINDOW >> 18)
    str r1, [r0]
    bx lr

@ Each finds its own there, as `foreign_memory` left it, or nothing.
window:
    push {r4-r7, lr}
    mov r0, #0
    put aborts, r0, r1
    ldr r4, =WINDOW
    ldr r5, =WINDOW + 0x2000
    ldr r6, =MARK
    orr r6, r6, r11
    mov r7, #0
1:  mov r0, r6
    ldr r0, [r4]
    cmp r0, r6
    addne r7, r7, #1
    add r4, r4, #0x1000
    cmp r4, r5
    blo 1b
    get r0, aborts
    cmp r11, #0
    subeq r0, r0, #2
    cmp r0, #0
    addne r7, r7, #1
    get r0, wrong_window
    add r0, r0, r7
    put wrong_window, r0, r1
    pop {r4-r7, pc}

@ Registers that belong to no guest, or to one alone: the owner writes to those that it can, from its kernel and from
@ its user code. The visitor finds nothing there; what is undefined is skipped, and counts as nothing.
reach:
    push {r4-r7, lr}
    ldr r6, =MARK
    orr r6, r6, r11
    mov r7, #0
    bl reach_all
    msr spsr_cxsf, #MODE_USR
    adr lr, reach_as_user
    movs pc, lr
reach_as_user:
    bl reach_all
    svc #LEAVE - 1
reached_back:
    cmp r11, #0
    moveq r0, r7
    movne r0, #0
    get r1, reached
    orr r0, r0, r1
    put reached, r0, r1
    pop {r4-r7, pc}

    .macro touch coprocessor, op1, crn, crm, op2
    mcrne \coprocessor, \op1, r6, \crn, \crm, \op2
    mov r0, #0
    mrc \coprocessor, \op1, r0, \crn, \crm, \op2
    orr r7, r7, r0
    .endm
reach_all:
    cmp r11, #0
    touch p15, 0, c9, c12, 0        @ PMCR
    touch p15, 0, c9, c12, 1        @ PMCNTENSET
    touch p15, 0, c9, c12, 5        @ PMSELR
    touch p15, 0, c9, c13, 0        @ PMCCNTR
    touch p15, 0, c9, c13, 1        @ PMXEVTYPER
    touch p15, 0, c9, c13, 2        @ PMXEVCNTR
    touch p15, 0, c9, c14, 0        @ PMUSERENR
    touch p15, 0, c13, c0, 4        @ TPIDRPRW
    touch p15, 0, c14, c1, 0        @ CNTKCTL
    touch p14, 6, c0, c0, 0         @ TEECR
    touch p14, 6, c1, c0, 0         @ TEEHBR
    touch p14, 7, c1, c0, 0         @ JOSCR
    touch p14, 7, c2, c0, 0         @ JMCR
    touch p14, 0, c0, c5, 0         @ DBGDTRTXint, DBGDTRRXint
    bx lr

@ Looks for somebody else's values in all of memory behind the image, and leaves its own there.
foreign_memory:
    ldr r0, =0x40200000
    ldr r1, =0x40f00000             @ the device tree may be behind that
    ldr r2, =MARK
    orr r3, r2, r11
    mov r6, #0
1:  ldr r4, [r0]
    bic r5, r4, #0xff
    cmp r5, r2
    bne 2f
    cmp r4, r3
    addne r6, r6, #1
2:  str r3, [r0], #4
    cmp r0, r1
    blo 1b
    put foreign, r6, r0
    bx lr

    .balign 32
leak_vectors:
    b .
    movs pc, lr
    b called
    b .
    b aborted
    b .
    b .
    b .

called:
    ldrb r12, [lr, #-4]
    cmp r12, #LEAVE
    beq back_in_kernel
    b reached_back

aborted:
    push {r0, r1}
    get r0, aborts
    add r0, r0, #1
    put aborts, r0, r1
    pop {r0, r1}
    subs pc, lr, #4

    .ltorg

    .section .data
    .balign 4096                    @ Spica makes anew what it made of a page that changes
aborts:
    .word 0
strange:
    .word 0
wrong_rights:
    .word 0
wrong_alignment:
    .word 0
reserved:
    .word 0
foreign:
    .word 0
wrong_window:
    .word 0
reached:
    .word 0
    .section .text
