@ Translation and caches.

    .include "common.inc"
    .text

@ Flushes, each with one access that needs a translation again. What is read is 1.
    .macro flush name, label, operation
    bench \name, \label, 4, events=4, setup=window_tables
    .balign 64
\label:
    ldr r6, =WINDOW + 0x5000
9:
    .rept 4
    \operation
    dsb
    isb
    ldr r0, [r6]
    add r11, r11, r0
    .endr
    again
    b finished
    .ltorg
    .endm
    flush tlb-flush-all, tlb_flush_all, "mcr p15, 0, r0, c8, c7, 0"
    flush tlb-flush-page, tlb_flush_page, "mcr p15, 0, r6, c8, c7, 1"
    flush tlb-flush-asid, tlb_flush_asid, "mcr p15, 0, r10, c8, c7, 2"

@ All pages of the window, one after the other: more than any TLB has room for. Sixteen to an inner loop.
    .macro touch name, label, before=""
    bench \name, \label, WINDOW_PAGES, events=WINDOW_PAGES, setup=window_tables
    .balign 64
\label:
    mov r6, #4096
9:  \before
    ldr r5, =WINDOW
    mov r7, #WINDOW_PAGES / 16
1:
    .rept 16
    ldr r0, [r5], r6
    .endr
    subs r7, r7, #1
    add r11, r11, r0, lsl #4
    bne 1b
    again
    b finished
    .ltorg
    .endm
    touch tlb-evict-hot, tlb_hot
    touch tlb-evict-cold, tlb_cold, flush_tlb

@ A page is mapped to another place, as Linux does it: descriptor, clean, TLB, access. Two places, which hold 1 and 2.
    bench page-remap, page_remap, 2, events=3, setup=window_tables, check=page_restore
page_remap:
    ldr r6, =WINDOW + 0x5000
    ldr r5, =WINDOW_TABLE + 5 * 4
    ldr r7, [r5]
    add r8, r7, #0x1000
    ldr r0, =PAGES + 0x6000
    mov r1, #2
    str r1, [r0]
9:
    .macro remap descriptor
    str \descriptor, [r5]
    mcr p15, 0, r5, c7, c10, 1      @ DCCMVAC
    dsb
    mcr p15, 0, r6, c8, c7, 1       @ TLBIMVA
    dsb
    isb
    ldr r0, [r6]
    add r11, r11, r0
    .endm
    remap r8
    remap r7
    again
    b finished
page_restore:
    ldr r0, =PAGES + 0x6000
    mov r1, #1
    str r1, [r0]
    mov r0, #0
    mov r1, #0
    bx lr
    .ltorg

@ A page is mapped, used, and taken away.
    bench page-map-unmap, page_map, 2, events=2, setup=window_tables
page_map:
    ldr r6, =WINDOW + 0x7000
    ldr r5, =WINDOW_TABLE + 7 * 4
    ldr r7, [r5]
    mov r8, #0
9:
    .rept 2
    str r7, [r5]
    mcr p15, 0, r5, c7, c10, 1
    dsb
    isb
    ldr r0, [r6]
    add r11, r11, r0
    str r8, [r5]
    mcr p15, 0, r5, c7, c10, 1
    dsb
    mcr p15, 0, r6, c8, c7, 1
    dsb
    isb
    .endr
    again
    str r7, [r5]                    @ as the next run finds it
    b finished
    .ltorg

@ Caches, line by line over 32 KiB.
    .macro line name, label, instruction
    bench \name, \label, 16, check=line_check
    .balign 64
\label:
    ldr r6, =BUFFER
    ldr r7, =0x1234567
    str r7, [r6]
9:
    .rept 16
    \instruction
    add r6, r6, #64
    .endr
    bic r6, r6, #0x8000
    again
    b finished
    .ltorg
    .endm
line_check:
    ldr r0, =BUFFER
    ldr r0, [r0]
    mov r1, r7
    bx lr
    .ltorg
    line cache-clean-line, cache_clean, "mcr p15, 0, r6, c7, c10, 1"
    line cache-clean-invalidate-line, cache_flush, "mcr p15, 0, r6, c7, c14, 1"
    line cache-clean-to-unification-line, cache_unify, "mcr p15, 0, r6, c7, c11, 1"
    line cache-invalidate-code-line, cache_code, "mcr p15, 0, r6, c7, c5, 1"
    simple cache-invalidate-code-all, 8, "mcr p15, 0, r0, c7, c5, 0"
    simple predictor-flush-all, 8, "mcr p15, 0, r0, c7, c5, 6"

@ From one address space to another and back, as Linux does it (ARM ARM, B3.10.4): reserved ASID, table, new ASID, and
@ an access to a page that is different in each.
    bench address-space-switch, space_switch, 2, events=3, setup=space_setup
space_setup:
    push {r4, lr}
    ldr r0, =TABLE
    ldr r1, =TABLE_B
    mov r3, #0x1000
1:  ldr r2, [r0], #4
    str r2, [r1]
    mcr p15, 0, r1, c7, c10, 1
    add r1, r1, #4
    subs r3, r3, #1
    bne 1b
    ldr r4, =memory
    ldr r4, [r4]
    ldr r1, =TABLE_B
    ldr r0, =(USER_TABLE_B - KERNEL) + (USER_DOMAIN << 5) + 1
    add r0, r0, r4
    str r0, [r1]
    mcr p15, 0, r1, c7, c10, 1
    ldr r1, =USER_TABLE_B + (USER_DATA >> 10)
    ldr r0, =USER_PAGE_B - KERNEL + PAGE_USER_DATA
    add r0, r0, r4
    str r0, [r1]
    mcr p15, 0, r1, c7, c10, 1
    flush_tlb
    ldr r0, =USER_PAGE
    mov r1, #1
    str r1, [r0]
    mov r1, #2
    ldr r0, =USER_PAGE_B
    str r1, [r0]
    mov r0, #0
    pop {r4, pc}
space_switch:
    ldr r6, =USER_DATA
    mov r5, #0
    mov r2, #ASID_A
    mov r3, #ASID_B
    mrc p15, 0, r7, c2, c0, 0
    add r8, r7, #(TABLE_B - TABLE)
9:
    .macro switch_to ttbr, asid
    mcr p15, 0, r5, c13, c0, 1
    isb
    mcr p15, 0, \ttbr, c2, c0, 0
    isb
    mcr p15, 0, \asid, c13, c0, 1
    isb
    ldr r0, [r6]
    add r11, r11, r0
    .endm
    switch_to r8, r3
    switch_to r7, r2
    again
    b finished
    .ltorg
