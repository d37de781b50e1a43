@ Every fault of the MMU, data and prefetch, from every mode and both instruction sets of user code: banked LR and SPSR,
@ masks, stack, and the fault registers, with the access flag off and on.

    .include "runtime.inc"
    .include "tables.inc"
    .include "probe.inc"

    @ Sections of the window, each with one thing that is wrong. AP is chosen so that with the access flag (SCTLR.AFE)
    @ nothing else goes wrong: where two faults are due, QEMU has another order than the manual (see mmu.S).
    .equ NOTHING, WINDOW
    .equ CLOSED, WINDOW + 0x100000          @ its domain is
    .equ PRIVILEGED, WINDOW + 0x200000      @ AP 001
    .equ READ_ONLY, WINDOW + 0x300000       @ AP 101, privileged
    .equ UNTOUCHED, WINDOW + 0x400000       @ AP 010: user read-only; or the access flag is clear
    .equ NEVER, WINDOW + 0x500000           @ executed: XN
    .equ PAGES, WINDOW + 0x600000           @ pages with the same
    .equ CLOSED_PAGES, WINDOW + 0x700000
    .equ NO_TABLE, WINDOW + 0x800000        @ a second level that is nowhere

    .global main
main:
    push {r4-r12, lr}
    bl fill_section
    bl flat_tables
    bl make_tables
    bl mmu_on
    mov r0, #5                      @ domains 0 and 1 are clients
    set_dacr r0
    say "\naccess flag off"
    bl all_modes
    ldr r0, =SCTLR + (1 << 29)
    set_sctlr r0
    bl flush
    say "\naccess flag on"
    bl all_modes
    ldr r0, =SCTLR
    set_sctlr r0
    pop {r4-r12, pc}

    .macro entry address, value     @ of the first level, in R4
    ldr r0, =\value
    str r0, [r4, #(\address >> 18) - (WINDOW >> 18)]
    .endm
    .macro small index, value       @ of the second level, in R4
    ldr r0, =\value
    str r0, [r4, #\index * 4]
    .endm

make_tables:
    ldr r4, =TABLES + (WINDOW >> 18)
    entry NOTHING, 0
    entry CLOSED, SECTION + 0xc0e + (3 << 5)
    entry PRIVILEGED, SECTION + 0x40e + (1 << 5)
    entry READ_ONLY, SECTION + 0x840e + (1 << 5)
    entry UNTOUCHED, SECTION + 0x80e + (1 << 5)
    entry NEVER, SECTION + 0xc1e + (1 << 5)
    entry PAGES, LEVEL2 + 1 + (1 << 5)
    entry CLOSED_PAGES, LEVEL2 + 1 + (3 << 5)
    entry NO_TABLE, ABSENT + 1 + (1 << 5)
    ldr r4, =LEVEL2
    small 0, 0
    small 1, SECTION + 0x1000 + 0x01e       @ AP 001
    small 2, SECTION + 0x2000 + 0x21e       @ AP 101
    small 3, SECTION + 0x3000 + 0x02e       @ AP 010
    small 4, SECTION + 0x4000 + 0x03f       @ XN
    small 5, SECTION + 0x5000 + 0x03e
    mov r1, #16
    ldr r0, =SECTION + 0x10000 + 0x801d     @ a large page: AP 001, XN
1:  str r0, [r4, r1, lsl #2]
    add r1, r1, #1
    cmp r1, #32
    blo 1b
    ldr r4, =TABLES + (ABSENT >> 18)
    ldr r0, =ABSENT + 0xc16
    str r0, [r4]
    bx lr

    @ For each kind of address, its macro.
    .macro each_address what
    \what NOTHING + 0x124
    \what CLOSED + 0x124
    \what PRIVILEGED + 0x124
    \what READ_ONLY + 0x124
    \what UNTOUCHED + 0x124
    \what NEVER + 0x124
    \what PAGES + 0x124
    \what PAGES + 0x1124
    \what PAGES + 0x2124
    \what PAGES + 0x3124
    \what PAGES + 0x4124
    \what PAGES + 0x5124
    \what PAGES + 0x11124
    \what CLOSED_PAGES + 0x5124
    \what NO_TABLE + 0x124
    .endm

    .macro in_mode mode, name
    say "\n\name"
    cps #\mode
    bl touch_all
    cps #MODE_SVC
    .endm

all_modes:
    push {r4-r12, lr}
    in_mode MODE_SVC, svc
    in_mode MODE_SYS, sys
    in_mode MODE_IRQ, irq
    in_mode MODE_ABT, abt
    in_mode MODE_UND, und
    in_mode MODE_FIQ, fiq
    say "\nunmasked"
    cpsie aif
    bl touch_all
    cpsid aif
    say "\nuser, A32"
    user arm_user, 0xa0000000
    say "\nuser, T32"
    user thumb_user + 1, 0x50000000
    pop {r4-r12, pc}

    @ A load, a store with write-back, a branch. Data aborts go on behind the instruction, prefetch aborts where
    @ `resume` says.
    .macro touch address
    ldr r12, =\address
    ldr r1, [r12]
    strd r10, r11, [r12, #4]!
    ldr r12, =\address
    resume_at 88f
    blx r12
88: mov r1, #0
    put resume, r1, r0
    .endm

touch_all:
    push {r4-r12, lr}
    pattern
    ldr r10, =0xe12fff1e            @ what is everywhere
    ldr r11, =0xe12fff1e
    each_address touch
    pop {r4-r12, pc}
    .ltorg

    @ What always has to be aligned, and comes before all faults that tables cause.
    .macro misaligned address
    ldr r12, =\address + 2
    ldrd r0, r1, [r12]
    strd r10, r11, [r12, #4]!
    ldm r12, {r0, r1}
    stm r12, {r10, r11}
    .endm

arm_user:
    ldr r10, =0xe12fff1e
    ldr r11, =0xe12fff1e
    each_address touch
    misaligned PAGES + 0x5124
    misaligned NO_TABLE + 0x124
    svc #LEAVE
    .ltorg

    .thumb
    .macro touch_by_thumb address
    ldr r4, =\address
    ldr.w r1, [r4]
    str.w r5, [r4, #4]!
    ldr r4, =\address
    ldr r0, =resume
    ldr r1, =88f + 1
    str r1, [r0]
    blx r4                          @ to A32
88: movs r1, #0
    ldr r0, =resume
    str r1, [r0]
    .endm

thumb_user:
    ldr r5, =0xe12fff1e
    each_address touch_by_thumb
    svc #LEAVE
    .ltorg
    .arm
    .balign 4
