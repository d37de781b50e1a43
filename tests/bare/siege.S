@ Attacks on what Spica does in one go: each makes some of its records as long as they get, and then has it go through
@ them. Parameter 0 says which. What is looked at is how late a neighbour is woken meanwhile (pulse.S). See attack.inc.

    .include "runtime.inc"

    @ What guests write to is not in pages with code, as in clock.inc.
    .section .data
    .balign 4096
    .section .text

    .include "attack.inc"

    .equ LEVEL2, 0x40308000
    .equ CODE_PAGES, 0x40400000     @ pages of code, to the end of RAM
    .equ B_NEXT, 0xeaffffff         @ B to the next word
    .equ BX_LR, 0xe12fff1e
    .equ NOWHERE, 0x80000001        @ a second-level table where there is no memory

@ 0: TLBIMVA and TLBIMVAA with operands that have bits 11 to 8 set (SBZ, B4.2.2): MMU off, MMU on, right behind a change
@ of the space; singly, and in loops over pages.
junk_operands:
    bl identity
    bl quiet
    next_is 5f
1:  get r4, attempts
    @ Megabytes 0, RAM's, the hypervisor region's and the last one by turns; bits 11:8 count; ASIDs 0, 1 and 0xff.
    ldr r5, =junk_places
    and r0, r4, #3
    ldr r5, [r5, r0, lsl #2]
    ubfx r0, r4, #2, #4
    orr r5, r5, r0, lsl #8
    tst r4, #0x40
    orrne r5, r5, #1
    tst r4, #0x80
    orrne r5, r5, #0xff
    ands r0, r4, #0x100
    bne 2f
    bl quiet
    b 3f
2:  bl mmu_on
    ubfx r0, r4, #6, #2
    set_contextidr r0
3:  mcr p15, 0, r5, c8, c7, 1
    mcr p15, 0, r5, c8, c7, 3
    mcr p15, 0, r5, c8, c6, 1
    mcr p15, 0, r5, c8, c5, 1
    mcr p15, 0, r5, c8, c7, 1
    ldr r0, =TABLES
    set_ttbr0 r0
    mcr p15, 0, r5, c8, c7, 1
    add r6, r5, #0x8000
    mov r7, r5
4:  mcr p15, 0, r7, c8, c7, 1
    add r7, r7, #0x1000
    cmp r7, r6
    blo 4b
5:  next_is 5b
    again 1b, 2048
    b survived

@ 1: each page of RAM has code that stores into its own page. Parameter 1 is how many.
writing_to_themselves:
    next_is 3f
    ldr r4, =CODE_PAGES
    ldr r5, =0xe58f0000             @ STR r0, [pc], which is the word behind the next
    ldr r6, =BX_LR
    get r7, parameters + 4
    add r7, r4, r7, lsl #12
1:  stm r4, {r5, r6}
    add r4, r4, #0x1000
    cmp r4, r7
    blo 1b
    publish_all
    ldr r4, =CODE_PAGES
2:  blx r4
    add r4, r4, #0x1000
    get r0, attempts
    add r0, r0, #1
    put attempts, r0, r1
    cmp r4, r7
    blo 2b
3:  b survived

    .equ SOURCES, 5                 @ pages
    .equ PAIRS, 512                 @ of words in each: CMP r0, #n; BEQ
    .equ DEPTH, 16                  @ pairs in a block, which ends after 32 instructions

@ 2: as many exits as there are, all linked to one block, from blocks that overlap; then a store to the page from which
@ the first of them came.
linked:
    bl identity
    next_is 9f
    ldr r4, =CODE_PAGES             @ the one block is here
    ldr r0, =BX_LR
    str r0, [r4]
    add r5, r4, #0x1000
    mov r6, #0
1:  ldr r0, =0xe3500000             @ CMP r0, #n
    and r1, r6, #0xff
    orr r0, r0, r1
    ldr r1, =0x0a000000             @ BEQ
    sub r2, r4, r5
    sub r2, r2, #12
    ubfx r2, r2, #2, #24
    orr r1, r1, r2
    stm r5!, {r0, r1}
    add r6, r6, #1
    cmp r6, #SOURCES * PAIRS
    blo 1b
    ldr r0, =BX_LR                  @ what runs over the end
    str r0, [r5]
    publish_all
    @ Blocks are made, at each word, backwards, so that what a block runs into is there; no exit is taken.
    add r7, r4, #0x1000
2:  sub r5, r5, #4
    mvn r0, #0
    cmp r0, #0
    blx r5
    cmp r5, r7
    bhi 2b
    @ Each exit is taken once: those of the newest blocks of a page first, so that they are last when it goes.
    mov r8, #0                      @ the page
3:  mov r9, #0                      @ the block, by its word
4:  mov r10, #0                     @ its exit
5:  add r5, r4, #0x1000
    add r5, r5, r8, lsl #12
    add r5, r5, r9, lsl #2
    add r0, r9, #1
    lsr r0, r0, #1                  @ the first pair that is whole
    add r0, r0, r8, lsl #9
    add r0, r0, r10
    and r0, r0, #0xff
    cmp r5, #0
    blx r5
    add r10, r10, #1
    cmp r10, #DEPTH - 1
    blo 5b
    get r0, attempts
    add r0, r0, #1
    put attempts, r0, r1
    add r9, r9, #1
    cmp r9, #PAIRS * 2
    blo 4b
    add r8, r8, #1
    cmp r8, #SOURCES
    blo 3b
    @ Now they go.
    add r5, r4, #0x1000
    str r0, [r5]
    add r5, r5, #0x1000
    str r0, [r5]
    str r0, [r4]
9:  b survived

@ 3: the console, as much at a time as its queue takes. Parameter 1 is the size of each buffer.
console:
    ldr r4, =0x0a000000
    mov r0, #0
    str r0, [r4, #0x70]
    mov r0, #3
    str r0, [r4, #0x70]
    mov r0, #1
    str r0, [r4, #0x24]
    str r0, [r4, #0x20]             @ VERSION_1
    mov r0, #0xb
    str r0, [r4, #0x70]
    mov r0, #1                      @ the queue to the host
    str r0, [r4, #0x30]
    mov r0, #64
    str r0, [r4, #0x38]
    ldr r0, =SCRATCH
    str r0, [r4, #0x80]
    add r1, r0, #0x1000
    str r1, [r4, #0x90]
    add r2, r0, #0x2000
    str r2, [r4, #0xa0]
    mov r3, #0
    str r3, [r1]
    str r3, [r2]
    add r1, r1, #4
    get r9, parameters + 4
1:  ldr r7, =CODE_PAGES
    mov r8, #0
    mov r10, #0
    stm r0!, {r7-r10}
    strh r3, [r1], #2
    add r3, r3, #1
    cmp r3, #64
    blo 1b
    ldr r0, =0x2e2e2e2e             @ dots, and now and then the end of a line
    mov r1, #0
2:  str r0, [r7, r1]
    add r1, r1, #4
    cmp r1, r9
    blo 2b
    mov r1, #63
3:  mov r2, #'\n'
    strb r2, [r7, r1]
    add r1, r1, #64
    cmp r1, r9
    blo 3b
    mov r0, #1
    str r0, [r4, #0x44]
    mov r0, #0xf
    str r0, [r4, #0x70]
    mov r3, #0
    ldr r1, =SCRATCH + 0x1000
    ldr r2, =SCRATCH + 0x2000
    mov r0, #1
4:  add r3, r3, #64
    strh r3, [r1, #2]
    dsb
    str r0, [r4, #0x50]
5:  ldrh r5, [r2, #2]
    uxth r6, r3
    cmp r5, r6
    bne 5b
    b 4b

@ 4: the TLB is invalidated as a whole, by ASID and by address, with code in parameter 1 pages. Parameter 2: whether the
@ pages are small ones, each at its address.
invalidated:
    bl identity
    next_is 9f
    ldr r4, =CODE_PAGES
    get r7, parameters + 4
    add r7, r4, r7, lsl #12
    mov r5, r4
    ldr r0, =BX_LR
1:  str r0, [r5]
    add r5, r5, #0x1000
    cmp r5, r7
    blo 1b
    publish_all
2:  mov r5, r4
3:  blx r5
    add r5, r5, #0x1000
    cmp r5, r7
    blo 3b
    mov r6, #16
4:  mov r0, #0
    mcr p15, 0, r0, c8, c7, 0
    dsb
    isb
    mcr p15, 0, r0, c8, c7, 2
    mcr p15, 0, r4, c8, c7, 1
    mcr p15, 0, r4, c8, c7, 3
    dsb
    isb
    subs r6, r6, #1
    bne 4b
    again 2b, 8
9:  b survived

@ 5: SCTLR, TTBCR, CPACR, VBAR and TTBR1 are written, with parameter 1 blocks in the cache, all of them linked.
control:
    bl identity
    next_is 9f
    ldr r4, =CODE_PAGES
    get r7, parameters + 4
    add r7, r4, r7, lsl #2
    ldr r0, =B_NEXT
    mov r5, r4
1:  str r0, [r5], #4
    cmp r5, r7
    blo 1b
    ldr r0, =BX_LR
    str r0, [r7]
    publish_all
2:  blx r4
    get r0, attempts
    ldr r1, =control_bits
    and r0, r0, #7
    ldr r6, [r1, r0, lsl #2]
    mrc p15, 0, r8, c1, c0, 0
    eor r9, r8, r6
    mov r10, #8
3:  mcr p15, 0, r9, c1, c0, 0
    isb
    mcr p15, 0, r8, c1, c0, 0
    isb
    mov r0, #1
    mcr p15, 0, r0, c2, c0, 2
    isb
    mov r0, #0
    mcr p15, 0, r0, c2, c0, 2
    isb
    ldr r0, =0x00f00000
    mcr p15, 0, r0, c1, c0, 2
    isb
    mov r0, #0
    mcr p15, 0, r0, c1, c0, 2
    isb
    ldr r0, =TABLES
    mcr p15, 0, r0, c2, c0, 1
    isb
    mov r0, #0
    mcr p15, 0, r0, c2, c0, 1
    isb
    subs r10, r10, #1
    bne 3b
    again 2b, 8
9:  b survived

@ 6: the hypervisor region's addresses that Spica looks at, all of them in second-level tables. Parameter 1: 0 nowhere,
@ 1 in RAM, and empty, 2 in RAM, and all of their pages nowhere, 3 sections nowhere.
tables_to_nowhere:
    bl identity
    next_is 9f
    bl quiet
    ldr r0, =LEVEL2                 @ empty, or pages that are nowhere
    mov r1, #0
    get r2, parameters + 4
    cmp r2, #2
    ldreq r1, =0x80000032
    mov r3, #256
1:  str r1, [r0], #4
    subs r3, r3, #1
    bne 1b
    ldr r1, =nowhere
    ldr r1, [r1, r2, lsl #2]
    ldr r0, =TABLES + (VCPU_PAGE >> 18)
    mov r2, #0x30
2:  str r1, [r0], #4
    subs r2, r2, #1
    bne 2b
    bl mmu_on
    ldr r4, =CODE_PAGES
3:  mov r0, #0
    mcr p15, 0, r0, c8, c7, 0
    dsb
    isb
    ldr r0, [r4]
    get r0, attempts
    and r0, r0, #0xff
    set_contextidr r0
    ldr r0, =VCPU_PAGE
    mcr p15, 0, r0, c8, c7, 1
    dsb
    isb
    @ And time for others, whose interrupts end this turn.
    mov r5, #0x1000
4:  subs r5, r5, #1
    bne 4b
    again 3b, 2000
9:  b survived

    .ltorg

    .section .data
    .balign 4
attacks:
    .word junk_operands, writing_to_themselves, linked, console, invalidated, control, tables_to_nowhere
junk_places:
    .word 0, 0x40200000, 0xf1800000, 0xfff00000
@ SCTLR: A, Z, I, C, V, AFE, TRE, M
control_bits:
    .word 2, 0x800, 0x1000, 4, 0x2000, 0x20000000, 0x10000000, 1
nowhere:
    .word NOWHERE, LEVEL2 + 1, LEVEL2 + 1, 0x80000c02
    .section .text
