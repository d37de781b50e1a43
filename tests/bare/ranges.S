@ TLB maintenance of ranges, page by page in a loop as kernels do it: pages with data, with code that has run, and a
@ device, that become other pages; below the kernel's range, in it, and across its beginning; with ASIDs and without.

    .include "runtime.inc"
    .include "tables.inc"

    .equ PAGES, SCRATCH             @ 256 of them; page n has n in its first word, and a function that returns n
    .equ FUNCTION, 0x40
    .equ ENTRY, 0x43e               @ a small page, write-back, for all
    .equ NOT_GLOBAL, 0x800
    .equ UART_ID, 0xfe0             @ reads as 0x11

    .macro over_pages page, end
1:  mcr p15, 0, \page, c8, c7, 1
    add \page, \page, #0x1000
    cmp \page, \end
    blo 1b
    .endm

    .global main
main:
    push {r4-r12, lr}
    bl fill_pages
    say "\nreserved bits"
    bl reserved_bits                @ the MMU is off
    bl flat_tables
    bl mmu_on
    bl reserved_bits
    mov r0, #1
    set_contextidr r0
    ldr r8, =WINDOW
    ldr r9, =ENTRY
    say "\nlow, global"
    bl window
    orr r9, r9, #NOT_GLOBAL
    say "\nlow"
    bl window
    ldr r8, =0xc0000000
    ldr r9, =ENTRY
    say "\nhigh, global"
    bl window
    orr r9, r9, #NOT_GLOBAL
    say "\nhigh"
    bl window
    ldr r8, =0xbef00000
    ldr r9, =ENTRY
    say "\nbetween, global"
    bl window
    orr r9, r9, #NOT_GLOBAL
    say "\nbetween"
    bl window
    bl loops
    bl last_page
    bl long_loop
    pop {r4-r12, pc}

@ Bits 11:8 of the operand are reserved (B4.2.2): they name no page, and no ASID.
reserved_bits:
    push {r4-r6, lr}
    mov r4, #0x100
3:  mcr p15, 0, r4, c8, c7, 1
    mov r5, r4
    add r6, r4, #0x5000
    over_pages r5, r6
    show page, r5
    add r5, r4, #WINDOW
    mcr p15, 0, r5, c8, c7, 1
    add r5, r4, #0xc0000000
    mcr p15, 0, r5, c8, c7, 1
    add r4, r4, #0x100
    cmp r4, #0x1000
    blo 3b
    dsb
    isb
    pop {r4-r6, pc}

fill_pages:
    push {r4, lr}
    ldr r4, =PAGES
    mov r0, #0
1:  str r0, [r4]
    ldr r1, =0xe3a00000             @ MOV r0, #n
    orr r1, r1, r0
    ldr r2, =0xe12fff1e             @ BX lr
    str r1, [r4, #FUNCTION]
    str r2, [r4, #FUNCTION + 4]
    add r4, r4, #0x1000
    add r0, r0, #1
    cmp r0, #256
    blo 1b
    publish_all
    pop {r4, pc}

@ R8 = two megabytes of addresses, R9 = what entries have besides an address.
window:
    push {r4-r7, r10, r11, lr}
    lsr r0, r8, #18
    ldr r1, =TABLES
    add r1, r1, r0
    ldr r0, =LEVEL2 + 1
    str r0, [r1]
    add r0, r0, #0x400
    str r0, [r1, #4]
    mov r0, #0
    mov r1, #512
    mov r2, #0
    bl map_range
    bl flush
    bl sums
    adr r10, list
1:  ldrh r4, [r10], #2              @ from this page
    ldrh r5, [r10], #2              @ to before that
    cmp r5, #0
    beq 2f
    mov r0, r4
    mov r1, r5
    add r2, r5, r10, lsl #4         @ whatever
    bl map_range
    dsb
    add r0, r8, r4, lsl #12
    add r1, r8, r5, lsl #12
    orr r0, r0, #1                  @ the ASID
    orr r1, r1, #1
    bl forget_range
    sub r0, r0, r8
    say "\n "
    show after, r0
    bl sums
    b 1b

    @ A page that is a device by turns.
2:  mov r4, #6
3:  say "\n "
    ldr r0, =LEVEL2 + 4 * 5
    ldr r1, =UART + 0x437           @ device, never executed
    str r1, [r0]
    bl fifth
    ldr r1, [r7, #UART_ID]
    show device, r1
    mov r0, #5
    mov r1, #6
    mov r2, r4
    bl map_range
    bl fifth
    ldr r1, [r7]
    show memory, r1
    add r0, r7, #FUNCTION
    blx r0
    show code, r0
    subs r4, r4, #1
    bne 3b
    @ Nothing is left, so that the next one begins with nothing.
    lsr r0, r8, #18
    ldr r1, =TABLES
    add r1, r1, r0
    mov r0, #0
    str r0, [r1]
    str r0, [r1, #4]
    bl flush
    pop {r4-r7, r10, r11, pc}

fifth:
    push {lr}
    dsb
    add r7, r8, #0x5000
    orr r0, r7, #1
    add r1, r0, #0x1000
    bl forget_range
    pop {pc}

list:
    .hword 0, 1, 3, 4, 0, 256, 250, 270, 0, 512, 255, 257, 17, 300, 300, 511, 256, 512, 100, 101, 0, 512, 0, 0

@ Pages R0 to before R1 become others, by R2.
map_range:
    push {r4, lr}
    ldr r3, =LEVEL2
1:  mla r4, r0, r2, r2
    add r4, r4, r0
    and r4, r4, #255
    lsl r4, r4, #12
    orr r4, r4, #PAGES & 0xff000000
    orr r4, r4, #PAGES & 0x00ff0000
    orr r4, r4, r9
    str r4, [r3, r0, lsl #2]
    add r0, r0, #1
    cmp r0, r1
    blo 1b
    pop {r4, pc}

@ From R0 to before R1, as Linux does it; flags must be those of the last comparison.
forget_range:
    push {r4, lr}
    over_pages r0, r1
    mrs r4, cpsr
    bic r4, r4, #0x0ff00000
    bic r4, r4, #0xff
    dsb
    isb
    mcr p15, 0, r4, c7, c5, 0
    mcr p15, 0, r4, c7, c5, 6
    dsb
    isb
    lsr r4, r4, #28
    show flags, r4
    pop {r4, pc}

@ What all pages have, and what every third one's function returns.
sums:
    push {r4-r7, lr}
    mov r4, #0
    mov r5, #0
    mov r7, r8
1:  ldr r0, [r7]
    add r4, r0, r4, ror #27
    add r0, r7, #FUNCTION
    blx r0
    add r4, r0, r4, ror #27
    add r7, r7, #0x3000
    add r5, r5, #3
    cmp r5, #512
    blo 1b
    show sum, r4
    mov r4, #0
    mov r5, #0
    mov r7, r8
2:  ldr r0, [r7]
    add r7, r7, #0x1000
    add r4, r0, r4, ror #27
    add r5, r5, #1
    cmp r5, #512
    blo 2b
    show all, r4
    pop {r4-r7, pc}

@ Loops that are nearly like that, and ends that are reached at once.
loops:
    push {r4-r12, lr}
    say "\nloops"
    pattern
    ldr r2, =WINDOW
    ldr r7, =WINDOW + 0x5000
    over_pages r2, r7
    mrs r12, cpsr
    show page, r2
    show end, r7
    lsr r12, r12, #28
    show flags, r12
    pattern
    ldr r7, =WINDOW + 0xff000
    ldr r0, =WINDOW + 0x203000
    over_pages r7, r0
    show page, r7
    ldr r8, =WINDOW
    ldr r9, =WINDOW + 0x5000
    over_pages r8, r9
    show page, r8
    ldr r3, =WINDOW
    over_pages r3, r3
    show page, r3
    ldr r3, =WINDOW + 0x5000
    ldr r4, =WINDOW
    over_pages r3, r4
    show page, r3
    ldr r3, =0xffffe000
    mov r4, #0
    over_pages r3, r4
    show page, r3
    ldr r3, =0xffffe007
    ldr r4, =0xfffff000
    over_pages r3, r4
    show page, r3
    ldr r3, =0xfffff001
    mov r4, #5
    over_pages r3, r4
    show page, r3
    ldr r3, =WINDOW
    ldr r4, =WINDOW + 0x4800        @ not at a page
    over_pages r3, r4
    show page, r3
    ldr r3, =WINDOW
    ldr r4, =WINDOW + 0x4000
    mov r5, #0
1:  mcr p15, 0, r3, c8, c7, 1
    add r3, r3, #0x1000
    add r5, r5, #1                  @ rounds are counted: no other may be left out
    cmp r3, r4
    blo 1b
    show rounds, r5
    ldr r3, =WINDOW
1:  mcr p15, 0, r3, c8, c7, 1
    add r3, r3, #0x2000             @ not a page
    cmp r3, r4
    blo 1b
    show page, r3
    ldr r3, =WINDOW
1:  mcr p15, 0, r3, c8, c7, 1
    add r3, r3, #0x1000
    cmp r3, r4
    bne 1b
    show page, r3
    ldr r3, =WINDOW
    mov r5, #0
2:  add r5, r5, #1
1:  mcr p15, 0, r3, c8, c7, 1
    add r3, r3, #0x1000
    cmp r3, r4
    blo 2b                          @ not to the operation
    show rounds, r5
    pop {r4-r12, pc}

@ The last page of all becomes another, by a loop that begins with that page, and with any of the reserved bits.
last_page:
    push {r4-r8, lr}
    say "\nthe last page"
    ldr r4, =TABLES + 0xfff * 4
    ldr r0, =LEVEL2 + 1
    str r0, [r4]
    ldr r5, =LEVEL2 + 4 * 255
    ldr r6, =PAGES + ENTRY
    ldr r7, =0xfffff000
    adr r8, operands
2:  add r6, r6, #0x1000
    str r6, [r5]
    dsb
    ldrh r0, [r8], #2
    orr r0, r0, r7
    mov r3, #0
    over_pages r0, r3
    dsb
    isb
    show from, r0
    ldr r0, [r7]
    show page, r0
    adr r0, operands_end
    cmp r8, r0
    blo 2b
    mov r0, #0
    str r0, [r4]
    bl flush
    pop {r4-r8, pc}

operands:
    .hword 0, 0xff, 0xf00, 0xffe, 0xfff, 0xfff
operands_end:

@ A page becomes another by a loop over 384 MiB, of which nothing else is mapped.
long_loop:
    push {r4-r8, lr}
    say "\na long loop"
    ldr r4, =TABLES + 0xdff * 4
    ldr r0, =LEVEL2 + 1
    str r0, [r4]
    ldr r5, =LEVEL2 + 4 * 7
    ldr r6, =PAGES + ENTRY
    ldr r7, =0xdff07000
    mov r8, #3
2:  add r6, r6, #0x1000
    str r6, [r5]
    dsb
    ldr r2, =0xc8000004
    ldr r3, =0xe0000000
    over_pages r2, r3
    dsb
    isb
    show from, r2
    ldr r0, [r7]
    show page, r0
    subs r8, r8, #1
    bne 2b
    str r8, [r4]
    bl flush
    pop {r4-r8, pc}

    .ltorg
