@ Memory attributes: TEX, C, B and S in every combination, for sections, large and small pages, with TEX remap
@ (SCTLR.TRE) off and on, PRRR and NMRR of all kinds, and the access flag. What they are is the memory's own business;
@ that memory is there, with the same rights and the same contents by each address, and that nothing else of a
@ descriptor is mistaken for them, is what is seen here. Then supersections, in each of their sixteen entries. And a
@ device at an address that is something else later: the same load again and again.

    .include "runtime.inc"
    .include "tables.inc"
    .include "probe.inc"

    .equ TRE, 1 << 28
    .equ AFE, 1 << 29

    .global main
main:
    push {r4-r12, lr}
    vectors_at probe_vectors
    bl fill_section
    bl flat_tables
    bl mmu_on
    mov r0, #0x41                   @ domain 3, too, which `describe` takes
    set_dacr r0
    say "\nTRE off"
    ldr r0, =SCTLR
    bl with_sctlr
    @ Where a combination is remapped must not matter: four ways of it, all of them normal memory or device.
    ldr r4, =remaps
    mov r5, #4
1:  ldm r4!, {r0, r1}
    mcr p15, 0, r0, c10, c2, 0
    mcr p15, 0, r1, c10, c2, 1
    isb
    say "\nTRE on"
    show prrr, r0
    ldr r0, =SCTLR + TRE
    bl with_sctlr
    say "\nTRE and AFE on"
    ldr r0, =SCTLR + TRE + AFE
    bl with_sctlr
    subs r5, r5, #1
    bne 1b
    ldr r0, =SCTLR
    set_sctlr r0
    bl flush
    bl supersections
    bl devices
    pop {r4-r12, pc}

@ The console's identification, then memory, each by the same load through a page of domain 1; with TLBIMVA, TLBIALL and
@ the domain closed in between.
devices:
    push {lr}
    vectors_at vectors
    say "\nA device, and memory in its place"
    mov r0, #0x05
    set_dacr r0
    ldr r0, =TABLES + 0x1c00         @ where nothing was before
    ldr r1, =LEVEL2 + 0x21          @ domain 1
    str r1, [r0]
    ldr r0, =SCRATCH
    ldr r1, =0xabcd
    str r1, [r0, #0xfe0]
    ldr r4, =LEVEL2
    ldr r1, =SCRATCH + 0x1c3e       @ a page behind it, of this address space only
    str r1, [r4, #4]
    ldr r5, =UART + 0x36            @ a small page, device, for all
    ldr r6, =SCRATCH + 0x43e        @ normal
    mov r9, #0x70000000
    mov r7, #0
    mov r8, #6
1:  str r5, [r4]
    bl changed
    add r0, r9, #0x1000
    ldr r0, [r0]
    bl identify
    bl identify
    mov r0, #0x01
    set_dacr r0
    bl identify                     @ a domain fault each time
    bl identify
    mov r0, #0x05
    set_dacr r0
    bl identify
    bl identify
    str r6, [r4]
    bl changed
    bl identify
    bl identify
    subs r8, r8, #1
    bne 1b
    vectors_at probe_vectors
    show identification, r7
    pop {pc}

@ R7 collects the word at R9 + 0xFE0, or what an abort leaves behind.
identify:
    push {r4-r9, lr}
    resume_at 1f
    ldr r0, [r9, #0xfe0]
1:  pop {r4-r9, lr}
    add r7, r0, r7, ror #27
    bx lr

@ The page at R9 is another one: TLBIMVA, or TLBIALL each third time.
changed:
    dsb
    ands r0, r8, #3
    mcreq p15, 0, r0, c8, c7, 0
    mcrne p15, 0, r9, c8, c7, 1
    dsb
    isb
    bx lr

@ All attributes with this SCTLR. Bits of R4: 4:0 TEX, C, B; 5 S; 7:6 the size: section, large page, small page.
with_sctlr:
    push {r4-r12, lr}
    set_sctlr r0
    bl flush
    mov r4, #0
    mov r6, #0                      @ what accesses come to
    mov r7, #0                      @ what memory holds
1:  ldr r10, =WINDOW
    mov r0, r4
    mov r4, #3                      @ AP 011
    ubfx r1, r0, #6, #2
    orr r4, r4, r1, lsl #7
    push {r0}
    bl describe
    pop {r4}
    bl attribute
    bl flush
    ldr r8, =WINDOW + 0x3040
    ldr r9, =SECTION + 0x3040
    ubfx r0, r4, #6, #2
    cmp r0, #0
    beq 2f
    sub r9, r9, #0x3000             @ all pages are the first one
    cmp r0, #1
    addeq r9, r9, #0x3000           @ of a large page, every piece is its own
2:  mov r5, #0
3:  cmp r5, #4                      @ no instruction fetches: not of a device
    beq 4f
    cmp r5, #7
    beq 4f
    mov r0, r8
    mov r1, r5
    bl probe
    add r6, r0, r6, ror #27
4:  add r5, r5, #1
    cmp r5, #KINDS
    blo 3b
    @ Written by either address, read by the other. Both are cleaned: attributes differ.
    orr r0, r4, r4, lsl #16
    str r0, [r8]
    mcr p15, 0, r8, c7, c14, 1
    dsb
    mcr p15, 0, r9, c7, c14, 1
    dsb
    ldr r1, [r9]
    add r7, r1, r7, ror #27
    mvn r1, r0
    str r1, [r9]
    mcr p15, 0, r9, c7, c14, 1
    dsb
    mcr p15, 0, r8, c7, c14, 1
    dsb
    ldr r1, [r8]
    add r7, r1, r7, ror #27
    ldr r1, =0xe12fff1e             @ as it was
    str r1, [r9]
    mcr p15, 0, r9, c7, c14, 1
    dsb
    add r4, r4, #1
    cmp r4, #0xc0
    blo 1b
    get r0, sum
    show accesses, r6
    show contents, r7
    show faults, r0
    pop {r4-r12, pc}

@ Puts the attributes of R4 into the descriptors that `describe` has made.
attribute:
    ubfx r0, r4, #0, #1             @ B
    ubfx r1, r4, #1, #1             @ C
    ubfx r2, r4, #2, #3             @ TEX
    ubfx r3, r4, #5, #1             @ S
    orr r0, r0, r1, lsl #1
    lsl r0, r0, #2
    ubfx r1, r4, #6, #2
    cmp r1, #0
    bne 1f
    orr r0, r0, r2, lsl #12
    orr r0, r0, r3, lsl #16
    ldr r5, =TABLES + (WINDOW >> 18)
    add r12, r5, #4
    b 2f
1:  cmp r1, #1
    orreq r0, r0, r2, lsl #12
    orrne r0, r0, r2, lsl #6
    orr r0, r0, r3, lsl #10
    ldr r5, =LEVEL2
    add r12, r5, #64
2:  ldr r1, =0x1700c                @ TEX, S, C and B of a section
    tst r4, #0xc0
    beq 3f
    tst r4, #0x80
    ldreq r1, =0x740c               @ of a large page
    ldrne r1, =0x5cc                @ of a small one
3:  ldr r2, [r5]
    bic r2, r2, r1
    orr r2, r2, r0
    str r2, [r5], #4
    cmp r5, r12
    blo 3b
    bx lr

    .ltorg

@ Sixteen megabytes by one descriptor, sixteen times; bits 23:20 of the address are the address's own. The domain is 0.
supersections:
    push {lr}
    say "\nsupersections"
    ldr r0, =TABLES + (WINDOW >> 18)
    ldr r1, =0x40000000 + 0x40c0e
    mov r2, #16
1:  str r1, [r0], #4
    subs r2, r2, #1
    bne 1b
    bl flush
    ldr r0, =SECTION + 0x5000       @ in the third megabyte
    mov r1, #77
    str r1, [r0]
    ldr r0, =WINDOW + 0x205000
    ldr r0, [r0]
    show seen, r0
    ldr r0, =WINDOW + 0x205000
    mov r1, #78
    str r1, [r0]
    ldr r0, =SECTION + 0x5000
    ldr r0, [r0]
    show seen, r0
    @ One of the sixteen is another descriptor: only its megabyte is.
    ldr r0, =TABLES + (WINDOW >> 18)
    mov r1, #0
    str r1, [r0, #4]
    bl flush
    ldr r0, =WINDOW + 0x203000
    mov r1, #0
    bl probe
    show third, r0
    ldr r0, =WINDOW + 0x103000
    mov r1, #0
    bl probe
    show second, r0
    @ Its domain field is address bits 39:36, not a domain: domain 0 it is, whatever else is closed.
    mov r0, #0xfffffffd
    set_dacr r0
    ldr r0, =WINDOW + 0x203000
    mov r1, #1
    bl probe
    show open, r0
    mov r0, #1
    set_dacr r0
    pop {pc}

    .ltorg

    .section .data
    .balign 4
    @ PRRR and NMRR: as Linux has them; all normal, write-back; all normal, not cached; all device, shareable.
remaps:
    .word 0x000a81a8, 0x40e040e0
    .word 0x000aaaaa, 0x55555555
    .word 0x000caaaa, 0x00000000
    .word 0x000d5555, 0x00000000
    .section .text
