@ Code that changes: rewritten, copied, remapped, reached by two addresses; with the maintenance that is due, and no
@ more.

    .include "runtime.inc"
    .include "tables.inc"

    .equ PAGES, SCRATCH             @ RAM for code
    .equ WIDE, 0x60000000           @ sixteen megabytes for a supersection
    .equ MOV_R0, 0xe3a00000         @ MOV r0, #n
    .equ ADD_R0, 0xe2800000         @ ADD r0, r0, #n
    .equ BX_LR, 0xe12fff1e
    .equ NOP, 0xe320f000
    .equ MRS_R0, 0xe10f0000         @ MRS R0, CPSR
    .equ MRS_R1, 0xe10f1000

    .global main
main:
    push {r4-r12, lr}
    say "\nMMU and caches off"
    bl rewriting
    bl own_page
    bl copies
    bl map
    say "\nMMU and caches on"
    bl low_linear_map               @ first: the linear map counts as known after a few changes
    bl rewriting
    bl own_page
    bl copies
    bl aliases
    bl patches
    bl pokes
    bl remapping
    bl spaces
    bl boundary
    bl unmapped
    bl volatile
    bl user_code
    bl closed
    bl vector_literal
    bl wide
    bl toggling
    pop {r4-r12, pc}

@ Pages for the window: page n of the window is page n of PAGES; all of it flat as well.
map:
    push {lr}
    bl flat_tables
    ldr r0, =TABLES + 0x1400
    ldr r1, =LEVEL2 + 1
    str r1, [r0]
    ldr r0, =LEVEL2
    ldr r1, =PAGES + 0x43e
    add r2, r0, #0x400
1:  str r1, [r0], #4
    add r1, r1, #0x1000
    cmp r0, r2
    blo 1b
    bl mmu_on
    pop {pc}

@ What is due after a word at R0 was written (B2.2.9).
    .macro publish_r0
    mcr p15, 0, r0, c7, c11, 1
    dsb
    mcr p15, 0, r0, c7, c5, 1
    mcr p15, 0, r0, c7, c5, 7
    dsb
    isb
    .endm
publish:
    publish_r0
    bx lr

@ R6 collects what code returns.
    .macro collect
    add r6, r0, r6, ror #27
    .endm

@ A function rewritten again and again, by stores of all kinds.
rewriting:
    push {lr}
    mov r6, #0
    mov r5, #0
    ldr r4, =PAGES + 0x100
    ldr r1, =BX_LR
    str r1, [r4, #4]
1:  and r2, r5, #0xff
    ldr r1, =MOV_R0
    orr r1, r1, r2
    and r3, r5, #7
    ldr pc, [pc, r3, lsl #2]
    nop
    .word 10f, 11f, 12f, 13f, 14f, 15f, 16f, 17f
10: str r1, [r4]
    b 2f
11: strb r2, [r4]                   @ the rest of the word is as it was
    b 2f
12: strh r1, [r4]
    lsr r1, r1, #16
    strh r1, [r4, #2]
    b 2f
13: ldr r2, =BX_LR
    stm r4, {r1, r2}
    b 2f
14: mov r2, r1
    ldr r3, =BX_LR
    strd r2, r3, [r4]
    b 2f
15: ldrex r3, [r4]
    strex r2, r1, [r4]
    b 2f
16: strt r1, [r4]
    b 2f
17: ldr r2, =BX_LR
    add r3, r4, #8
    stmdb r3!, {r1, r2}
2:  mov r0, r4
    bl publish
    mov r0, #0
    blx r4
    collect
    add r5, r5, #1
    cmp r5, #80
    blo 1b
    @ Several words, maintained all at once.
    mov r5, #0
3:  mov r3, r4
    ldr r1, =MOV_R0
    str r1, [r3], #4
    ldr r1, =ADD_R0
    orr r1, r1, r5
    mov r2, #20
4:  str r1, [r3], #4
    subs r2, r2, #1
    bne 4b
    ldr r1, =BX_LR
    str r1, [r3]
    publish_all
    blx r4
    collect
    add r5, r5, #1
    cmp r5, #20
    blo 3b
    show rewritten, r6
    pop {pc}

@ Code that rewrites what is behind it, in its own page and block.
own_page:
    push {lr}
    mov r6, #0
    mov r5, #0
1:  adr r4, 2f
    ldr r1, =MOV_R0
    and r2, r5, #0xff
    orr r1, r1, r2
    str r1, [r4]
    mov r0, r4
    publish_r0                      @ no branch before the code that changes
2:  nop
    collect
    add r5, r5, #1
    cmp r5, #100
    blo 1b
    @ The code before: the loop's own head.
    mov r5, #0
3:  nop
    collect
    adr r4, 3b
    ldr r1, =MOV_R0
    orr r1, r1, r5
    stm r4, {r1}
    mov r0, r4
    bl publish
    add r5, r5, #1
    cmp r5, #100
    blo 3b
    show own, r6
    pop {pc}

@ A function copied to other places, and run there; then the place is used for another one.
copies:
    push {lr}
    mov r6, #0
    mov r5, #0
1:  tst r5, #1
    ldreq r1, =sum_of
    ldrne r1, =product_of
    ldr r4, =PAGES + 0x8000
    and r2, r5, #15
    add r4, r4, r2, lsl #10
    mov r3, r4
    mov r2, #16
2:  ldr r0, [r1], #4
    str r0, [r3], #4
    subs r2, r2, #1
    bne 2b
    dsb
    mcr p15, 0, r0, c7, c5, 0
    mcr p15, 0, r0, c7, c5, 6
    dsb
    isb
    mov r0, r5
    blx r4
    collect
    add r5, r5, #1
    cmp r5, #64
    blo 1b
    show copied, r6
    pop {pc}

    @ Sixteen words each, wherever they are.
sum_of:
    push {r4, lr}
    mov r4, #0
1:  add r4, r4, r0
    subs r0, r0, #1
    bpl 1b
    add r0, r4, pc
    adr r4, sum_of
    sub r0, r0, r4
    cmp r0, #1000
    addhi r0, r0, #7
    pop {r4, pc}
    .space 24
product_of:
    mov r2, lr
    mov r1, #1
1:  cmp r0, #1
    bls 2f
    mul r1, r0, r1
    sub r0, r0, #1
    b 1b
2:  ldr r0, 3f
    eor r0, r0, r1
    bx r2
3:  .word 0x5a5a5a5a
    .space 24

@ One page by two addresses: written by one, run by the other; maintenance by either.
aliases:
    push {lr}
    mov r6, #0
    mov r5, #0
    ldr r4, =WINDOW + 0x3000
    ldr r7, =PAGES + 0x3000
    ldr r1, =BX_LR
    str r1, [r7, #4]
1:  ldr r1, =MOV_R0
    orr r1, r1, r5
    tst r5, #1
    streq r1, [r7]
    strne r1, [r4]
    tst r5, #2
    moveq r0, r7
    movne r0, r4
    bl publish
    mov r0, #0
    tst r5, #4
    blxeq r4
    blxne r7
    collect
    mov r0, #0
    blx r4                          @ both, before the next
    collect
    blx r7
    collect
    add r5, r5, #1
    cmp r5, #96
    blo 1b
    show aliased, r6
    pop {pc}

    .ltorg

@ Many functions in a page, and one word of them after the other is patched, by either of the page's addresses.
patches:
    push {lr}
    mov r6, #0
    ldr r4, =PAGES + 0x48000
    ldr r7, =WINDOW + 0x48000
    mov r5, #0
1:  adr r0, patched
    ldm r0, {r0-r3, r8, r9}
    orr r1, r1, r5
    add r10, r4, r5, lsl #6
    stm r10, {r0-r3, r8, r9}
    str r5, [r10, #32]
    ldr r0, =0xe51f0010             @ LDR r0, [PC, #-16]: the same literal, from behind
    str r0, [r10, #40]
    str r9, [r10, #44]
    add r5, r5, #1
    cmp r5, #64
    blo 1b
    publish_all
    mov r5, #0
2:  mov r9, r5
    bl call_patched
    add r5, r5, #1
    cmp r5, #64
    blo 2b
    mov r5, #0
    mov r8, #1
3:  ldr r1, =1103515245
    mul r8, r8, r1
    add r8, r8, #77
    lsr r9, r8, #26                 @ which function
    tst r8, #1 << 20
    addeq r10, r4, r9, lsl #6
    addne r10, r7, r9, lsl #6
    and r2, r5, #0xff
    lsr r3, r8, #22
    and r3, r3, #7
    ldr pc, [pc, r3, lsl #2]
    nop
    .word 10f, 11f, 12f, 13f, 14f, 15f, 16f, 17f
10: ldr r1, =ADD_R0                 @ in its first block
    orr r1, r1, r2
    str r1, [r10, #4]!
    b 4f
11: orr r1, r2, r2, lsl #16         @ a literal
    str r1, [r10, #32]!
    b 4f
12: strb r2, [r10, #4]!             @ the last byte of an instruction
    b 4f
13: strh r2, [r10, #34]!            @ half of a literal
    b 4f
14: ldr r1, =0xe2200000             @ EOR r0, r0, #n: in its second block
    orr r1, r1, r2
    str r1, [r10, #16]!
    b 4f
15: ldr r1, [r10]                   @ nothing
    str r1, [r10]
    b 4f
16: str r8, [r10, #12]!             @ a word that is no code
    b 4f
17: orr r0, r2, r2, lsl #24         @ two literals, one of which nobody reads
    mov r1, r8
    strd r0, r1, [r10, #32]!
4:  mov r0, r10
    bl publish
    bl call_patched
    add r9, r9, #1
    and r9, r9, #63
    bl call_patched
    add r0, r4, r9, lsl #6
    add r0, r0, #40
    blx r0
    collect
    add r5, r5, #1
    cmp r5, #400
    blo 3b
    show patched, r6
    pop {pc}

@ Calls function R9, by both of its addresses.
call_patched:
    push {lr}
    add r0, r4, r9, lsl #6
    blx r0
    collect
    add r0, r7, r9, lsl #6
    blx r0
    collect
    pop {pc}

patched:
    ldr r0, [pc, #24]
    add r0, r0, #0
    b 1f
    .word 0
1:  eor r0, r0, #0
    bx lr

    .ltorg

    @ The page of POKES, or the one behind it, is the page at R0, as R3 says; at R10. Nothing is cached of it. Uses R1
    @ and R2.
    .macro map_poke
    ldr r1, =LEVEL2 + 0x800
    ubfx r2, r10, #12, #8
    bfc r0, #0, #12
    orr r0, r0, r3
    str r0, [r1, r2, lsl #2]
    mcr p15, 0, r1, c7, c11, 1
    dsb
    bic r1, r10, #0xff
    mcr p15, 0, r1, c8, c7, 1       @ of ASID 0
    dsb
    isb
    .endm

    .equ POKES, 0xd0000000          @ two pages that are mapped for one store, as Linux does with its fixmap
    .equ POKED, 0x43e               @ for all
    .equ POKED_READ, 0x61e          @ for the kernel, to read

@ Functions in eight pages, in which words are patched by pages that are mapped for that.
pokes:
    push {lr}
    ldr r0, =TABLES + (POKES >> 18)
    ldr r1, =LEVEL2 + 0x800 + 1
    str r1, [r0]
    ldr r0, =LEVEL2 + 0x800
    mov r1, #0
    add r2, r0, #0x400
1:  str r1, [r0], #4
    cmp r0, r2
    blo 1b
    bl flush
    mov r6, #0
    mov r5, #0
    ldr r4, =PAGES + 0x50000
    ldr r2, =BX_LR
2:  ldr r1, =MOV_R0
    orr r1, r1, r5
    add r10, r4, r5, lsl #10
    stm r10, {r1, r2}
    add r5, r5, #1
    cmp r5, #32
    blo 2b
    publish_all
    mov r5, #0
    mov r8, #1
3:  ldr r1, =1103515245
    mul r8, r8, r1
    add r8, r8, #77
    lsr r9, r8, #27                 @ which function
    add r9, r4, r9, lsl #10
    ldr r10, =POKES
    tst r8, #1 << 20
    addne r10, r10, #0x1000
    ubfx r0, r9, #0, #12
    orr r10, r10, r0
    mov r0, r9
    ldr r3, =POKED
    map_poke
    lsr r11, r8, #16                @ looks like no instruction that must be replaced
    ldr r1, =MOV_R0
    and r2, r5, #0xff
    orr r1, r1, r2
    lsr r3, r8, #22
    and r3, r3, #15
    mov r0, #0
    ldr pc, [pc, r3, lsl #2]
    nop
    .word 10f, 10f, 10f, 11f, 12f, 13f, 14f, 15f, 16f, 17f, 18f, 19f, 20f, 21f, 22f, 23f
10: str r1, [r10]                   @ an instruction
    b 4f
11: str r1, [r10], #8
    str r11, [r10]                  @ and what is none
    b 4f
12: strb r2, [r10]                  @ the last byte of an instruction
    b 4f
13: strh r11, [r10, #10]
    b 4f
14: mov r2, r11
    mov r3, r5
    strd r2, r3, [r10, #16]
    b 4f
15: str r11, [r10, #24]!
    ldr r0, [r10]
    b 4f
16: add r3, r10, #28
    stm r3, {r5, r11}
    b 4f
17: str sp, [r10, #36]
    b 4f
18: mov lr, r11
    str lr, [r10, #40]
    b 4f
19: mov r3, #44
    str r11, [r10, r3]
    str r5, [r10, r3]
    b 4f
20: ldr r0, [r10, #8]
    b 4f
21: add r10, r10, #48
    ldrex r3, [r10]
    strex r0, r11, [r10]
    b 4f
22: str r11, [r10, #54]             @ across words
    b 4f
23: mov r3, r10
    bfc r3, #0, #12
    str r11, [r3, #0xffc]!          @ the last word of the page
4:  collect
    tst r8, #1 << 21
    beq 5f
    mov r0, #0
    mov r3, #0
    map_poke
5:  mov r0, r9
    bl publish
    blx r9
    collect
    mov r3, r9
6:  ldr r0, [r3], #4                @ all of it, by another address
    collect
    sub r0, r3, r9
    cmp r0, #64
    blo 6b
    bfc r9, #0, #12
    ldr r0, [r9, #0xffc]
    collect
    add r5, r5, #1
    cmp r5, #500
    blo 3b
    show poked, r6
    bl pokes_in_a_row
    say "  none is there:"
    mov r0, #0
    mov r3, #0
    map_poke
    str r8, [r10]
    say "  to be read only:"
    mov r0, r4
    ldr r3, =POKED_READ
    map_poke
    str r8, [r10]
    ldr r0, [r10]
    show read, r0
    pop {pc}

    .ltorg

@ Words of one page after the other, as a kernel patches that traces its functions: the second of four of each function.
@ One of four functions has around it what runs elsewhere where it runs in place. In a page that has nothing else,
@ so that it runs there itself.
    .balign 4096
pokes_in_a_row:
    push {lr}
    mov r5, #0
1:  add r10, r4, r5, lsl #10
    ldr r0, =NOP
    and r1, r5, #3
    cmp r1, #3
    ldreq r0, =MRS_R1
    ldr r1, =MOV_R0
    mov r2, r0
    ldr r3, =BX_LR
    stm r10, {r0-r3}
    add r5, r5, #1
    cmp r5, #32
    blo 1b
    publish_all
    mov r6, #0
    mov r5, #0
2:  ubfx r9, r5, #6, #3             @ the page
    and r0, r5, #15
    cmp r0, #15
    andne r0, r0, #1
    moveq r0, #3
    add r9, r0, r9, lsl #2
    add r9, r4, r9, lsl #10
    ldr r10, =POKES + 4
    ubfx r0, r9, #0, #12
    orr r10, r10, r0
    mov r0, r9
    ldr r3, =POKED
    map_poke
    ldr r1, =MOV_R0
    and r2, r5, #0xff
    orr r1, r1, r2
    and r2, r5, #31
    cmp r2, #30
    ldreq r1, =MRS_R0
    str r1, [r10]
    mov r0, #0
    mov r3, #0
    map_poke
    add r0, r9, #4
    publish_r0
    cmp r0, r0
    blx r9
    collect
    add r5, r5, #1
    cmp r5, #1024
    blo 2b
    show row, r6
    pop {pc}

    .ltorg
    .balign 4096

    @ The window's page R0 = page R1 of PAGES.
map_page:
    ldr r2, =LEVEL2
    ldr r3, =PAGES + 0x43e
    add r3, r3, r1, lsl #12
    str r3, [r2, r0, lsl #2]
    dsb
    bx lr

@ One address, other code behind it: called directly, by register, and jumped to from a loop.
remapping:
    push {lr}
    @ Page n of PAGES, from 16 on: return n.
    ldr r4, =PAGES + 0x10000
    mov r5, #16
1:  ldr r1, =MOV_R0
    orr r1, r1, r5
    ldr r2, =BX_LR
    stm r4, {r1, r2}
    ldr r1, =ADD_R0 + 1             @ at 0x40: a loop of a hundred
    ldr r2, =0xe3500064
    ldr r3, =0x3afffffc             @ BLO
    add r0, r4, #0x40
    stm r0, {r1, r2, r3}
    ldr r1, =ADD_R0
    orr r1, r1, r5
    ldr r2, =BX_LR
    str r1, [r0, #12]
    str r2, [r0, #16]
    add r4, r4, #0x1000
    add r5, r5, #1
    cmp r5, #32
    blo 1b
    publish_all
    mov r6, #0
    mov r5, #0
2:  and r1, r5, #15
    add r1, r1, #16
    mov r0, #5
    bl map_page
    ldr r4, =WINDOW + 0x5000
    tst r5, #1
    mcreq p15, 0, r4, c8, c7, 1
    mcrne p15, 0, r4, c8, c7, 0
    mcr p15, 0, r4, c7, c5, 6
    dsb
    isb
    blx r4
    collect
    bl at_window
    collect
    mov r0, #0
    add r4, r4, #0x40
    blx r4
    collect
    add r5, r5, #1
    cmp r5, #80
    blo 2b
    show remapped, r6
    @ A section over all of it, and back.
    mov r5, #0
3:  ldr r0, =TABLES + 0x1400
    tst r5, #1
    ldreq r1, =PAGES + FLAT
    ldrne r1, =LEVEL2 + 1
    str r1, [r0]
    dsb
    ldr r4, =WINDOW + 0x11000
    forget r4
    mov r0, #0x11
    mov r1, #0x1e
    bl map_page
    forget r4
    blx r4
    collect
    add r5, r5, #1
    cmp r5, #16
    blo 3b
    show sections, r6
    mov r0, #0x11
    mov r1, #0x11
    bl map_page
    forget r4
    pop {pc}

at_window:
    ldr pc, =WINDOW + 0x5000

@ Two address spaces with other code at one address, in pages that are not global.
spaces:
    push {lr}
    bl other_table
    ldr r0, =LEVEL2 + 24
    ldr r1, =PAGES + 0x12000 + 0xc3e
    str r1, [r0]
    ldr r0, =LEVEL2 + 0x400 + 24
    ldr r1, =PAGES + 0x1d000 + 0xc3e
    str r1, [r0]
    bl flush
    mov r5, #0
    mov r6, #0
1:  bl enter_space
    ldr r3, =WINDOW + 0x6000
    blx r3
    collect
    mov r0, #0
    ldr r3, =WINDOW + 0x6040
    blx r3
    collect
    add r5, r5, #1
    cmp r5, #40
    blo 1b
    bl leave_spaces
    show spaces, r6
    pop {pc}

@ Code across the end of a page, with the second page remapped and unmapped in between.
boundary:
    push {lr}
    @ The first page ends with MOV r0, #1; ADD r0, r0, #2. Second pages n: ADD r0, r0, #n; BX LR
    ldr r4, =PAGES + 0x7ff8
    ldr r1, =MOV_R0 + 1
    ldr r2, =ADD_R0 + 2
    stm r4, {r1, r2}
    mov r5, #8
1:  ldr r4, =PAGES
    add r4, r4, r5, lsl #12
    ldr r1, =ADD_R0
    orr r1, r1, r5
    ldr r2, =BX_LR
    stm r4, {r1, r2}
    add r5, r5, #1
    cmp r5, #16
    blo 1b
    publish_all
    mov r6, #0
    mov r5, #0
2:  and r1, r5, #7
    add r1, r1, #8
    mov r0, #8
    bl map_page
    ldr r4, =WINDOW + 0x8000
    forget r4
    sub r4, r4, #8
    blx r4
    collect
    blx r4
    collect
    add r5, r5, #1
    cmp r5, #40
    blo 2b
    show boundary, r6
    @ The second page is gone: the exception comes with the first half done.
    ldr r0, =LEVEL2 + 32
    mov r1, #0
    str r1, [r0]
    dsb
    ldr r4, =WINDOW + 0x8000
    forget r4
    sub r4, r4, #8
    pattern
    ldr r4, =WINDOW + 0x7ff8
    resume_at 3f
    blx r4
3:  show r0, r0
    mov r0, #8
    mov r1, #9
    bl map_page
    ldr r4, =WINDOW + 0x8000
    forget r4
    sub r4, r4, #8
    blx r4
    show r0, r0
    pop {pc}

@ Code whose page goes and comes back, called directly in between.
unmapped:
    push {lr}
    mov r6, #0
    mov r5, #0
1:  mov r0, #5
    mov r1, #17
    bl map_page
    ldr r4, =WINDOW + 0x5000
    forget r4
    bl at_window
    collect
    ldr r0, =LEVEL2 + 20
    tst r5, #1
    mov r1, #0
    ldrne r1, =PAGES + 0x43f        @ there, but not to be executed
    str r1, [r0]
    dsb
    forget r4
    resume_at 2f
    bl at_window
    mov r0, #99
2:  collect
    add r5, r5, #1
    cmp r5, #4
    blo 1b
    show unmapped, r6
    pop {pc}

@ A page of code that is rewritten so often that it is worth no protection, with exceptions in its midst.
volatile:
    push {lr}
    mov r6, #0
    mov r5, #0
    ldr r4, =PAGES + 0x20000
1:  ldr r0, =MOV_R0
    and r2, r5, #0xff
    orr r0, r0, r2
    ldr r1, =ADD_R0 + 3
    ldr r2, =BX_LR
    stm r4, {r0, r1, r2}
    mov r0, r4
    bl publish
    blx r4
    collect
    add r5, r5, #1
    ldr r0, =600
    cmp r5, r0
    blo 1b
    show volatile, r6
    @ Code there that stores over itself, and then faults.
    adr r0, 2f
    ldm r0, {r0-r3, r7-r10}
    stm r4, {r0-r3, r7-r10}
    mov r0, r4
    bl publish
    pattern
    ldr r4, =PAGES + 0x20000
    ldr r12, =ABSENT
    mov r5, #0
    adr r11, 1f                     @ a supervisor call takes LR
    bx r4
1:  show r5, r5
    mov r5, #0
    adr r11, 1f
    bx r4
1:  show r5, r5
    pop {pc}
2:  add r5, r5, #1
    str r5, [r4, #28]               @ behind the return
    ldr r1, [r12, #4]!
    add r5, r5, #2
    svc #3
    udf #4
    bx r11
    nop

@ User code that writes code for itself, in a page from which the kernel has run code.
user_code:
    push {lr}
    bl flush
    ldr r4, =PAGES + 0x30000
    ldr r1, =MOV_R0 + 1
    ldr r2, =BX_LR
    stm r4, {r1, r2}
    mov r0, r4
    bl publish
    blx r4
    show kernel, r0
    bl user_writes
    ldr r4, =PAGES + 0x30000
    mov r0, #0
    blx r4
    show kernel, r0
    bl user_writes
    pop {pc}

    .equ NUMBER, PAGES + 0x3f000    @ what the code returns
@ User code writes it, the kernel does the maintenance, user code runs it.
user_writes:
    push {r5, lr}
    mov r5, #7
1:  ldr r0, =NUMBER
    str r5, [r0]
    user writes_code
    ldr r0, =PAGES + 0x30000
    bl publish
    user runs_code
    subs r5, r5, #3
    bpl 1b
    pop {r5, pc}
writes_code:
    ldr r4, =PAGES + 0x30000
    ldr r5, =NUMBER
    ldr r5, [r5]
    ldr r1, =MOV_R0
    orr r1, r1, r5
    ldr r2, =BX_LR
    stm r4, {r1, r2}
    svc #1
    svc #LEAVE
runs_code:
    ldr r4, =PAGES + 0x30000
    ldr lr, =2f
    bx r4
2:  show user, r0
    svc #LEAVE

    .ltorg

@ Code of user programs, in a domain that is closed while the kernel maintains it: operations by address heed neither
@ domains nor permissions (B3.12.3). Stores behind them do.
    .equ CLOSED, WINDOW + 0x200000  @ the pages of the window once more, in domain 2
closed:
    push {lr}
    ldr r0, =TABLES + 0x1408
    ldr r1, =LEVEL2 + 0x41
    str r1, [r0]
    ldr r0, =LEVEL2 + 0x41 * 4
    ldr r1, =PAGES + 0x4140e        @ nobody may access it
    str r1, [r0], #4
    ldr r1, =PAGES + 0x4261e        @ the kernel may read it
    str r1, [r0]
    bl flush
    mov r5, #0
1:  ldr r4, =CLOSED + 0x40000
    add r4, r4, r5, lsl #7
    mov r7, #0x11
    set_dacr r7
    mov r3, r4                      @ stored through the domain, while that is open, or by another address
    tst r5, #1
    subne r3, r3, #CLOSED - WINDOW
    ldr r0, =MOV_R0
    orr r0, r0, r5
    ldr r1, =0xef000001             @ printed
    ldr r2, =0xef000000 + LEAVE
    stm r3, {r0, r1, r2}
    mov r0, #1
    set_dacr r0
    mov r0, r4
    bl maintain
    add r0, r4, #8
    bl maintain
    str r4, [r4]
    set_dacr r7
    mov r0, r4
    mov r1, #0
    bl run_user
    add r5, r5, #1
    cmp r5, #6
    blo 1b
    mov r0, #1
    set_dacr r0
    ldr r4, =CLOSED + 0x41000
    ldr r5, =CLOSED - WINDOW
    mov r0, r4
    bl maintain
    add r0, r4, #0x1000
    bl maintain
    sub r0, r4, r5
    bl maintain
    add r0, r0, #0x1000
    bl maintain
    str r4, [r4]
    sub r6, r4, r5
    ldr r0, [r6]
    add r6, r6, #0x1000
    str r4, [r6]
    @ As kernels do it: line by line as CTR has them, from the middle of one page to the middle of another.
    mrc p15, 0, r2, c0, c0, 1
    ubfx r2, r2, #16, #4
    mov r3, #4
    lsl r3, r3, r2
    sub r2, r3, #1
    ldr r5, =CLOSED + 0x42800
    sub r4, r4, #0x2800
    bic r4, r4, r2
2:  mcr p15, 0, r4, c7, c11, 1
    add r4, r4, r3
    cmp r4, r5
    blo 2b
    dsb
    say "\n  maintained"
    ldr r0, =LEVEL2 + 0x41 * 4      @ as it was
    ldr r1, =PAGES + 0x4143e
    str r1, [r0], #4
    ldr r1, =PAGES + 0x4243e
    str r1, [r0]
    bl flush
    pop {pc}

@ What there is of it for the line at R0; twice, as the second may find what the first has made.
maintain:
    push {r1, lr}
    mov r1, #2
1:  mcr p15, 0, r0, c7, c11, 1      @ DCCMVAU
    dsb
    mcr p15, 0, r0, c7, c10, 1      @ DCCMVAC
    mcr p15, 0, r0, c7, c14, 1      @ DCCIMVAC
    dsb
    mcr p15, 0, r0, c7, c5, 1       @ ICIMVAU
    mcr p15, 0, r0, c7, c5, 7       @ BPIMVA
    dsb
    isb
    subs r1, r1, #1
    bne 1b
    pop {r1, pc}

    .ltorg

@ RAM at low addresses, by a section of the kernel's, at such a distance that the numbers of pages in it wrap: 256 pages
@ below their place in RAM. The page that wraps to the fourth number from the end has code, and user code writes to it,
@ in a page of its own address space.
    .equ WRAPS, 0x400fc000          @ page 252 of RAM
    .equ OF_USER, WINDOW + 0x7000
low_linear_map:
    push {lr}
    ldr r4, =WRAPS
    ldr r1, =MOV_R0 + 1
    ldr r2, =BX_LR
    stm r4, {r1, r2}
    mov r0, r4
    bl publish
    ldr r4, =PAGES + 0x31000        @ code in the section's megabyte, so that it is mapped by pages
    stm r4, {r1, r2}
    mov r0, r4
    bl publish
    blx r4
    ldr r0, =TABLES                 @ the megabyte of PAGES at 0x00100000
    ldr r1, =PAGES + FLAT
    str r1, [r0, #4]
    ldr r0, =LEVEL2 + 7 * 4         @ the page with code, and the one behind it for another, not global
    ldr r1, =WRAPS + 0xc3e
    str r1, [r0]
    ldr r1, =PAGES + 0x32c3e
    str r1, [r0, #4]
    ldr r0, =PAGES + 0x32000
    ldr r1, =MOV_R0 + 1
    str r1, [r0]
    bl flush
    ldr r7, =0x00132000
    mov r5, #2                      @ again, with all that the kernel writes to mapped
    mov r6, #0
1:  ldr r4, =WRAPS
    blx r4
    collect
    mrc p15, 0, r0, c13, c0, 1      @ CONTEXTIDR
    and r0, r0, #0xff
    ldr r1, =OF_USER
    orr r0, r0, r1
    mcr p15, 0, r0, c8, c7, 1       @ TLBIMVA
    dsb
    isb
    add r7, r7, #0x1000
    ldr lr, =2f                     @ what `user` does, and between what it writes and the user code:
    push {r4-r12, lr}
    ldr r1, =user_caller
    str sp, [r1]
    str r0, [r7]                    @ the linear map shows
    mov r1, #MODE_USR
    msr spsr_cxsf, r1
    ldr lr, =writes_wrapping
    movs pc, lr
2:
    ldr r4, =WRAPS
    blx r4
    collect
    subs r5, r5, #1
    bne 1b
    show wrapping, r6
    ldr r0, =TABLES
    str r5, [r0, #4]
    bl flush
    pop {pc}
@ Counts in another page of the same megabyte. Does not read where the code is: the page is to be mapped by the write.
writes_wrapping:
    ldr r0, =OF_USER + 0x1000
    ldr r1, [r0]
    add r1, r1, #5
    str r1, [r0]
    sub r0, r0, #0x1000
    str r1, [r0]
    svc #LEAVE

    .ltorg

@ A vector for supervisor calls that branches by a literal in the page behind it, as Linux's does, and then by one in
@ its own page. The literal changes: while a translator may have looked at it, and protected its page; and behind a
@ point where it may have forgotten all code, and with it what it protects: VFP is taken away.
vector_literal:
    push {lr}
    ldr r4, =PAGES + 0x40f00        @ the vectors
    mov r10, #0x100
    bl vector_with_literal
    mov r10, #0x40
    bl vector_with_literal
    vectors_at vectors
    pop {pc}

@ The literal is R10 bytes behind 0x10.
vector_with_literal:
    push {lr}
    ldr r1, =0xe59ff000             @ LDR PC, [PC, #n]
    orr r1, r1, r10
    str r1, [r4, #8]
    add r0, r4, #8
    bl publish
    mcr p15, 0, r4, c12, c0, 0
    isb
    mov r5, #8
    mov r6, #0
1:  bl give_vfp
    bl take_vfp
    bl two_literals
    bl two_literals
    mov r0, #MODE_USR | 0x80        @ another way into user code
    bl more_calls
    subs r5, r5, #1
    bne 1b
    show called, r6                 @ 8 * (100 * 1 + 150 * 0x100)
    pop {pc}

give_vfp:
    mrc p15, 0, r0, c1, c0, 2
    orr r0, r0, #0xf00000
    mcr p15, 0, r0, c1, c0, 2
    isb
    bx lr
take_vfp:
    mrc p15, 0, r0, c1, c0, 2
    bic r0, r0, #0xf00000
    mcr p15, 0, r0, c1, c0, 2
    isb
    bx lr

two_literals:
    push {lr}
    adr r1, first_call
    bl calls
    adr r1, second_call
    bl calls
    pop {pc}

@ Fifty calls, which arrive at R1 by the literal.
calls:
    add r0, r4, r10
    str r1, [r0, #0x10]
    mov r0, #MODE_USR
@ The same where the literal leads already, with status R0.
more_calls:
    mov r7, #50
    mov r8, lr
    msr spsr_fsxc, r0
    adr lr, calls_of_user
    movs pc, lr
calls_of_user:
    svc #0
    b calls_of_user
first_call:
    add r6, r6, #1
    b call_done
second_call:
    add r6, r6, #0x100
call_done:
    subs r7, r7, #1
    movsne pc, lr
    bx r8

    .ltorg

@ Code in a supersection that branches to other code there. The supersection becomes sixteen sections, and one of them
@ has other memory than before. One entry of the TLB was for all sixteen megabytes: an address in the first of them
@ names it (B4.2.2). The code that branches is in the third, and what it branches to in the fourth.
wide:
    push {lr}
    ldr r4, =PAGES + 0xf5000
    ldr r1, =0xea000000 + (((0x101000 - 8) >> 2) & 0xffffff)
    str r1, [r4]                    @ B to a megabyte and a page on
    add r4, r4, #0x1000
    ldr r1, =MOV_R0 + 2
    ldr r2, =BX_LR
    stm r4, {r1, r2}
    add r4, r4, #0x100000
    sub r1, r1, #1
    stm r4, {r1, r2}
    publish_all
    ldr r0, =TABLES + (WIDE >> 18)
    ldr r1, =0x40000000 + FLAT + (1 << 18)
    mov r2, #16
1:  str r1, [r0], #4
    subs r2, r2, #1
    bne 1b
    bl flush
    ldr r4, =WIDE + 0x2f5000
    mov r6, #0
    mov r5, #20
2:  mov r0, #0
    blx r4
    collect
    subs r5, r5, #1
    beq 4f
    cmp r5, #10
    bne 2b
    ldr r0, =TABLES + (WIDE >> 18)
    ldr r1, =0x40000000 + FLAT
    mov r2, #16
3:  str r1, [r0], #4
    add r1, r1, #0x100000
    subs r2, r2, #1
    bne 3b
    ldr r0, =TABLES + (WIDE >> 18)
    ldr r1, =PAGES + FLAT
    str r1, [r0, #3 * 4]
    mcr p15, 0, r0, c7, c11, 1
    dsb
    ldr r0, =WIDE
    mcr p15, 0, r0, c8, c7, 1       @ TLBIMVA
    mcr p15, 0, r0, c7, c5, 0
    mcr p15, 0, r0, c7, c5, 6
    dsb
    isb
    @ QEMU 7.2 goes on with the old code unless something makes it forget where code is, as another DACR does.
    mov r0, #5
    set_dacr r0
    mov r0, #1
    set_dacr r0
    b 2b
4:  show wide, r6
    pop {pc}

    .ltorg

@ The MMU goes off and on, and with it what an address means.
toggling:
    push {lr}
    @ Where the window is, there is RAM of the real machine but not of ours: so the window moves to RAM.
    ldr r0, =TABLES + 0x100c
    ldr r1, =PAGES + FLAT           @ 0x40300000 is PAGES while the MMU is on
    str r1, [r0]
    bl flush
    ldr r4, =0x40311000
    blx r4
    show on, r0
    ldr r0, =SCTLR & ~0x1005
    set_sctlr r0
    ldr r1, =MOV_R0 + 77
    ldr r2, =BX_LR
    stm r4, {r1, r2}
    mov r0, r4
    bl publish
    mov r6, #0
    mov r5, #20
1:  mov r0, #0
    blx r4
    collect
    ldr r0, =SCTLR
    set_sctlr r0
    mov r0, #0
    blx r4
    collect
    ldr r0, =SCTLR & ~0x1005
    set_sctlr r0
    subs r5, r5, #1
    bne 1b
    show toggled, r6
    pop {pc}

    .ltorg
