@ Translation: every kind of descriptor, every permission and domain, from both privilege levels; exact fault status.

    .include "runtime.inc"
    .include "tables.inc"
    .include "probe.inc"

    .global main
main:
    push {r4-r12, lr}
    vectors_at probe_vectors
    bl fill_section
    bl flat_tables
    ldr r0, =TABLES + (ABSENT >> 20) * 4
    ldr r1, =ABSENT + 0xc16
    str r1, [r0]
    bl mmu_on

    bl permissions
    bl fuzz
    bl table_places
    bl both_tables
    bl alignment
    bl transfers
    bl unprivileged_bytes
    bl domains
    bl remaps
    bl vectors_by_mmu
    pop {r4-r12, pc}

@ Nothing in the window.
clear_window:
    push {lr}
    ldr r0, =TABLES + 0x1400
    mov r1, #0
    add r2, r0, #64
1:  str r1, [r0], #4
    cmp r0, r2
    blo 1b
    bl flush
    pop {pc}

@ Sections, large and small pages with every AP, XN, state of the domain, with and without the access flag. AP = 100 is
@ reserved. An access flag fault goes before a domain or permission fault (TranslationTableWalkSD, B3.19.6, does what
@ TranslateAddressV checks afterwards), but not in QEMU: where both are due, there is no test.
permissions:
    push {lr}
    say "\npermissions"
    mov r4, #0                      @ bits 2:0 AP, 3 XN, 5:4 DACR, 6 AFE, 8:7 size
1:  and r0, r4, #7
    cmp r0, #4
    beq 9f
    ubfx r0, r4, #4, #2
    cmp r0, #2
    beq 9f
    tst r4, #0x40
    beq 2f
    cmp r0, #1
    bne 9f
    and r0, r4, #9
    cmp r0, #8
    beq 9f
2:  ldr r10, =WINDOW
    bl describe
    @ Domain 3, and the access flag
    ubfx r0, r4, #4, #2
    lsl r0, r0, #6
    orr r0, r0, #1
    mcr p15, 0, r0, c3, c0, 0
    ldr r0, =SCTLR
    tst r4, #0x40
    orrne r0, r0, #1 << 29
    set_sctlr r0
    @ The flat sections have AP = 011: with the access flag, that is access for all, too.
    bl flush
    say "\n"
    show ., r4
    ldr r0, =WINDOW + 0x3000
    bl probe_all
9:  add r4, r4, #1
    cmp r4, #0x180
    blo 1b
    ldr r0, =SCTLR
    mcr p15, 0, r0, c1, c0, 0
    mov r0, #1
    mcr p15, 0, r0, c3, c0, 0
    bl flush
    pop {pc}

@ Tables of random words, random accesses. What cores differ in is left out: types 11, PXN, large physical addresses,
@ AP = 100.
fuzz:
    push {lr}
    say "\nfuzz"
    ldr r11, =60
1:  ldr r5, =TABLES + 0x1400
    add r6, r5, #64
2:  bl random_section
    str r0, [r5], #4
    cmp r5, r6
    blo 2b
    ldr r5, =LEVEL2
    add r6, r5, #0x2000
3:  bl random_page
    str r0, [r5], #4
    cmp r5, r6
    blo 3b
    bl random
    bic r0, r0, #15
    orr r0, r0, #0xd                @ domain 0 client, 1 manager
    tst r0, #0x10
    bicne r0, r0, #8                @ or client
    mcr p15, 0, r0, c3, c0, 0
    bl flush
    mov r10, #40
    mov r9, #0
4:  bl random
    bic r6, r0, #0xff000000
    bic r6, r6, #3
    orr r6, r6, #WINDOW
    bl random
    ubfx r1, r0, #8, #4
    cmp r1, #KINDS
    subhs r1, r1, #8
    mov r0, r6
    bl probe
    add r9, r0, r9, ror #27
    subs r10, r10, #1
    bne 4b
    tst r11, #7
    bne 5f
    say "\n"
5:  show ., r9
    subs r11, r11, #1
    bne 1b
    get r0, sum
    show sum, r0
    ldr r0, =SCTLR
    mcr p15, 0, r0, c1, c0, 0
    mov r0, #1
    mcr p15, 0, r0, c3, c0, 0
    pop {pc}

@ A first-level descriptor: a section, a supersection, a table, nothing.
random_section:
    push {lr}
    bl random
    and r1, r0, #3
    cmp r1, #0
    beq 9f
    cmp r1, #3
    beq 9f
    cmp r1, #2
    beq 2f
    @ A table: one of eight. Domain kept, PXN, NS off.
    ldr r1, =0x1de0
    and r1, r0, r1
    and r2, r1, #0x1c00
    @ Domain 1, which is never closed: a fault of the second level goes before one of the domain (B3.19.6), but not in
    @ QEMU.
    mov r1, #0x20
    ldr r3, =LEVEL2 + 1
    tst r0, #0x0f000000             @ now and then a table that is nowhere
    ldreq r3, =ABSENT + 1
    orr r0, r3, r1
    orr r0, r0, r2
    pop {pc}
2:  ldr r1, =0x0001ffee             @ TEX, AP, XN, domain, C, B, S, nG
    orr r1, r1, #0x20000
    orr r1, r1, #0x08000
    and r0, r0, r1
    bl fix_section
    pop {pc}
9:  and r0, r0, #0xfffffffc
    pop {pc}

fix_section:
    push {lr}
    ubfx r1, r0, #10, #2
    tst r0, #0x8000
    beq 1f
    cmp r1, #0
    orreq r0, r0, #0x400
1:  orr r0, r0, #2
    mov r3, r0
    bl random
    tst r0, #0x700
    beq 2f
    ldr r1, =SECTION
    orr r0, r3, r1
    pop {pc}
2:  @ A supersection: sixteen megabytes of RAM, domain 0 by definition
    bic r0, r3, #0x1e0
    orr r0, r0, #0x40000
    orr r0, r0, #0x40000000
    pop {pc}

@ A second-level descriptor.
random_page:
    push {lr}
    bl random
    and r1, r0, #3
    cmp r1, #0
    beq 9f
    tst r0, #0x200                  @ AP[2], AP[1:0]
    beq 1f
    tst r0, #0x30
    orreq r0, r0, #0x10
1:  cmp r1, #1
    ldreq r1, =0x0000fe3d
    ldrne r1, =0x000fffff
    and r0, r0, r1
    ldr r1, =SECTION
    orr r0, r0, r1
    bl large_in_ram
9:  pop {pc}
large_in_ram:
    and r1, r0, #3
    cmp r1, #1
    biceq r0, r0, #0x1c0            @ SBZ
    bx lr

    .ltorg

@ First- and second-level tables that are nowhere: external aborts of the walk.
table_places:
    push {lr}
    say "\ntable places"
    ldr r0, =TABLES + 0x1400
    ldr r1, =ABSENT + 1 + (5 << 5)
    str r1, [r0]
    bl flush
    say "\n second"
    ldr r0, =0x55555555
    set_dacr r0
    ldr r0, =WINDOW
    bl probe_all
    mov r0, #1
    set_dacr r0
    pop {pc}

@ TTBR0 and TTBR1 by TTBCR.N, and the bits that turn either off.
    .macro probe_at address, kind
    ldr r0, =\address
    mov r1, #\kind
    bl probe
    show ., r0
    .endm
both_tables:
    push {lr}
    say "\nboth tables"
    bl clear_window
    @ TTBR1 has the good table, TTBR0 a copy with other mappings below 0x40000000.
    ldr r0, =TABLES
    mcr p15, 0, r0, c2, c0, 1
    ldr r4, =0x40380000
    mov r1, #0
    ldr r0, =SECTION + FLAT
1:  str r0, [r4, r1]
    add r1, r1, #4
    cmp r1, #0x1000
    blo 1b
    ldr r0, =UART + 0xc16
    str r0, [r4, #(UART >> 20) * 4]
    mov r5, #2
2:  mcr p15, 0, r5, c2, c0, 2
    isb
    set_ttbr0 r4
    bl flush
    say "\n"
    show ttbcr, r5
    probe_at 0x01003000, 0
    probe_at 0x03003000, 0
    probe_at 0x07f03000, 1
    probe_at 0x0ff03000, 2
    probe_at 0x1ff03000, 4
    probe_at 0x3ff03000, 5
    add r5, r5, #1
    cmp r5, #5                      @ the console is in TTBR0's part up to here
    blo 2b
    @ PD0 and PD1 are part of the security extensions, which the real machine here lacks.
    mov r5, #0
    ldr r0, =TABLES
    set_ttbr0 r0
    set_ttbcr r5
    bl flush
    pop {pc}

@ Misaligned accesses with SCTLR.A off and on; across a page's end.
alignment:
    push {lr}
    say "\nalignment"
    bl clear_window
    ldr r0, =TABLES + 0x1400
    ldr r1, =LEVEL2 + 1
    str r1, [r0]
    ldr r0, =LEVEL2
    ldr r1, =SECTION + 0x43e        @ small page, TEX 001, for all
    str r1, [r0]
    mov r1, #0
    str r1, [r0, #4]
    bl flush
    ldr r4, =SCTLR
    bl misaligned
    @ On one board QEMU takes SCTLR.A from the wrong bank while user code runs: parameter 0 says so.
    get r0, parameters
    cmp r0, #0
    orreq r4, r4, #2
    bleq misaligned
    ldr r0, =SCTLR
    set_sctlr r0
    pop {pc}
misaligned:
    push {lr}
    set_sctlr r4
    say "\n"
    show sctlr, r4
    .irp offset, 0x101, 0x102, 0x103, 0xffd, 0xffe, 0x1001, 0xfff
    ldr r0, =WINDOW + \offset
    bl probe_all_data
    .endr
    pop {pc}
probe_all_data:
    push {r4-r6, lr}
    mov r4, r0
    mov r5, #0
    mov r6, #0
    ldr r0, =sum
    mov r1, #0
    str r1, [r0]
1:  cmp r5, #4                      @ not executed
    beq 2f
    cmp r5, #7
    beq 2f
    mov r0, r4
    mov r1, r5
    bl probe
    add r6, r0, r6, ror #27
2:  add r5, r5, #1
    cmp r5, #8
    blo 1b
    show ., r6
    get r0, sum
    show ., r0
    pop {r4-r6, pc}

@ Multiple and double transfers that fault in the middle: the base is as before, the exception exact.
transfers:
    push {lr}
    say "\ntransfers"
    vectors_at vectors
    ldr r12, =WINDOW + 0xff4
    .macro faulting instruction
    ldr r10, =WINDOW + 0xff4
    mov r11, #4
    \instruction
    show base, r10
    .endm
    faulting "ldm r10, {r0-r3}"
    faulting "ldm r10!, {r0-r5}"
    faulting "ldmib r10!, {r0-r2}"
    faulting "stm r10!, {r0-r5}"
    faulting "add r10, r10, #32 ; ldmdb r10!, {r0-r3}"
    faulting "add r10, r10, #32 ; stmda r10, {r0-r3}"
    faulting "add r10, r10, #12 ; ldr r0, [r10], #4"
    faulting "ldr r0, [r10, #16]!"
    faulting "str r0, [r10, #16]!"
    faulting "str r0, [r10, r11, lsl #3]!"
    faulting "ldrd r0, r1, [r10, #12]!"
    faulting "strd r0, r1, [r10, #8]!"
    faulting "strd r0, r1, [r10, #12]!"
    faulting "ldrh r0, [r10, #12]!"
    faulting "ldrsb r0, [r10, #12]!"
    faulting "add r10, r10, #12 ; ldrex r0, [r10]"
    faulting "add r10, r10, #12 ; ldrexd r0, r1, [r10]"
    faulting "add r10, r10, #12 ; ldrt r0, [r10], #4"
    faulting "add r10, r10, #12 ; strt r0, [r10], r11"
    faulting "add r10, r10, #12 ; ldrbt r0, [r10], #4"
    faulting "stm r10, {r0-r3, r13, r14, pc}"
    faulting "stm r10, {r0-r12, r14, pc}"
    faulting "stm r10!, {r10, r11, r12, r13, r14, pc}"
    faulting "stmib r10, {r0-r12, r13, r14, pc}"
    faulting "str pc, [r10, #16]!"
    faulting "mov r8, #16 ; str pc, [r10, r8]!"
    faulting "stm r10, {r0-r3, r13, r14}^"
    faulting "nop ; srs_at: cps #MODE_ABT ; ldr sp, =WINDOW + 0xffc ; cps #MODE_SVC ; srsia sp!, #MODE_SYS"
    faulting "add r10, r10, #8 ; resume_at 88f ; rfeia r10! ; 88: nop"
    @ R0 to R2 are UNKNOWN behind the abort (B1.9.8), but for what both the registers and the memory hold.
    faulting "resume_at 88f ; stm r10, {r0-r2} ; ldm r10!, {r0-r3, pc} ; 88: nop"
    faulting "add r10, r10, #12 ; resume_at 88f ; ldm r10!, {r0-r3, pc}^ ; 88: nop"
    faulting "resume_at 88f ; ldr pc, [r10, #16]! ; 88: nop"
    faulting "add r10, r10, #0x1000 ; resume_at 88f ; bx r10 ; 88: nop"
    faulting "ldr r9, =WINDOW + 0xffc ; mov lr, #0 ; blx r9"
    show lr, lr
    bl set_abt_stack
    @ The same from user code, natively.
    user user_transfers
    user user_thumb_transfers + 1
    vectors_at probe_vectors
    pop {pc}
@ Bytes with User mode's rights, again and again, while the rights of their page change; each time with the maintenance
@ that is due: of the page, of its address space, of all.
unprivileged_bytes:
    push {lr}
    say "\nunprivileged bytes"
    vectors_at vectors
    ldr r0, =TABLES + 0x1400
    ldr r1, =LEVEL2 + 1 + (5 << 5)
    str r1, [r0]
    bl flush
    ldr r5, =0x401
    set_dacr r5
    mov r4, #0
1:  .irp rights, 0xc3e, 0xc1e, 0xc3e, 0xc2e, 0xc3e, 0, 0xc3e    @ small page, not global: all, the kernel, all may read
    .if \rights
    ldr r5, =SECTION + \rights
    .else
    mov r5, #0
    .endif
    bl change_rights
    bl transfer_bytes
    .endr
    mov r5, #1                      @ no access to its domain, and access again
    set_dacr r5
    bl transfer_bytes
    ldr r5, =0x401
    set_dacr r5
    bl transfer_bytes
    add r4, r4, #1
    cmp r4, #3
    blo 1b
    mov r0, #1
    set_dacr r0
    ldr r0, =TABLES + 0x1400
    ldr r1, =LEVEL2 + 1
    str r1, [r0]
    bl flush
    vectors_at probe_vectors
    pop {pc}
@ The page of the window gets descriptor R5, with maintenance of kind R4; just before, its bytes are accessed with the
@ rights that there are, so that they may be known. Uses R0, R1 and R10.
change_rights:
    ldr r10, =WINDOW + 0x120
    .rept 2
    mov r0, r10
    ldrbt r1, [r0], #1
    strbt r1, [r0]
    .endr
    ldr r0, =LEVEL2
    str r5, [r0]
    mcr p15, 0, r0, c7, c11, 1      @ DCCMVAU
    dsb
    ldr r0, =WINDOW
    mrc p15, 0, r1, c13, c0, 1
    and r1, r1, #0xff
    orr r0, r0, r1
    cmp r4, #1
    bhi 2f
    beq 1f
    mcr p15, 0, r0, c8, c7, 1       @ TLBIMVA
    b 3f
1:  mcr p15, 0, r1, c8, c7, 2       @ TLBIASID
    b 3f
2:  mcr p15, 0, r0, c8, c7, 0       @ TLBIALL
3:  dsb
    isb
    bx lr
@ Behind an access with the kernel's own rights, for which the page may be mapped then. Uses R0 and R8 to R10.
transfer_bytes:
    push {lr}
    ldr r10, =WINDOW + 0x110
    mov r9, #0
    mov r8, #0
    ldr r0, [r10]
    ldrbt r9, [r10], #1
    strbt r4, [r10], #-1
    ldrb r8, [r10, #1]
    show loaded, r9
    show stored, r8
    show base, r10
    pop {pc}

set_abt_stack:
    cps #MODE_ABT
    ldr sp, =STACK_ABT
    cps #MODE_SVC
    bx lr

user_transfers:
    ldr r10, =WINDOW + 0xff4
    ldm r10!, {r0-r5}
    stm r10!, {r0-r5}
    ldr r0, [r10, #16]!
    strd r0, r1, [r10, #12]!
    add r10, r10, #12
    ldrt r0, [r10], #4
    ldrex r0, [r10]
    resume_at 1f
    ldr pc, [r10, #16]
1:  resume_at 1f
    add r10, r10, #0x1000
    bx r10
1:  svc #LEAVE
    .ltorg
    .thumb
user_thumb_transfers:
    .macro after label
    ldr r0, =resume
    ldr r1, =\label + 1
    str r1, [r0]
    .endm
    ldr r2, =WINDOW + 0xff4
    after 1f
    ldm r2!, {r3-r7}
1:  after 1f
    cmp r0, r0
    itt eq
    ldreq r3, [r2, #12]
    moveq r4, #1
1:  after 1f
    ldr.w r3, [r2, #14]
1:  after 1f
    tbb [r2, r2]
1:  after 1f
    strd r3, r4, [r2, #12]!
1:  svc #LEAVE
    .ltorg
    .arm
    .balign 4

@ Access to a domain opened and closed, as an operating system does around its copies to and from user memory.
domains:
    push {lr}
    say "\ndomains"
    bl clear_window
    ldr r0, =TABLES + 0x1400
    ldr r1, =SECTION + FLAT
    mov r2, #0
1:  bic r3, r1, #0x1e0
    orr r3, r3, r2, lsl #5
    str r3, [r0, r2, lsl #2]
    add r2, r2, #1
    cmp r2, #16
    blo 1b
    bl flush
    ldr r6, =0                      @ results
    mov r5, #0
2:  bl random
    tst r5, #8                      @ in half of the rounds nothing but client and none, and domain 15 as it is
    ldrne r1, =0x15555555
    andne r0, r0, r1
    bic r0, r0, #3
    orr r0, r0, #1
    set_dacr r0
    mov r4, #15
3:  ldr r0, =WINDOW + 0x2000
    add r0, r0, r4, lsl #20
    and r1, r5, #1
    bl probe
    add r6, r0, r6, ror #27
    ldr r0, =WINDOW + 0x2000
    add r0, r0, r4, lsl #20
    and r1, r5, #3
    add r1, r1, #4
    bl probe
    add r6, r0, r6, ror #27
    subs r4, r4, #1
    bpl 3b
    and r0, r5, #7
    cmp r0, #7
    bne 4f
    show ., r6
4:  add r5, r5, #1
    cmp r5, #64
    blo 2b
    mrc p15, 0, r0, c3, c0, 0
    show dacr, r0
    mov r0, #1
    set_dacr r0
    get r0, sum
    show sum, r0
    pop {pc}

@ One address, one page after the other, with the maintenance that is due: by address, by ASID, all.
remaps:
    push {lr}
    say "\nremaps"
    bl clear_window
    ldr r0, =TABLES + 0x1400
    ldr r1, =LEVEL2 + 1
    str r1, [r0]
    @ Page n of the section begins with n.
    ldr r0, =SECTION
    mov r1, #0
1:  str r1, [r0]
    add r0, r0, #4096
    add r1, r1, #1
    cmp r1, #256
    blo 1b
    bl flush
    mov r5, #0
    mov r6, #0
2:  ldr r0, =LEVEL2
    ldr r1, =SECTION + 0x43e
    orr r1, r1, r5, lsl #12
    ands r2, r5, #1
    orrne r1, r1, #0x800            @ not global
    str r1, [r0, #20]
    dsb
    ldr r3, =WINDOW + 0x5000
    and r2, r5, #3
    cmp r2, #0
    mcreq p15, 0, r3, c8, c7, 0
    cmp r2, #1
    mcreq p15, 0, r3, c8, c7, 1
    cmp r2, #2
    mcreq p15, 0, r3, c8, c7, 3
    cmp r2, #3
    mcreq p15, 0, r3, c8, c6, 1
    mcreq p15, 0, r3, c8, c5, 1
    dsb
    isb
    ldr r0, [r3]
    add r6, r0, r6, ror #27
    add r0, r0, #0x1000
    str r0, [r3, #4]
    ldr r3, =SECTION
    add r3, r3, r5, lsl #12
    ldr r0, [r3, #4]                @ by its own address
    add r6, r0, r6, ror #27
    add r5, r5, #1
    cmp r5, #256
    blo 2b
    show ., r6
    @ Address spaces: one table, two ASIDs, a page that differs.
    ldr r0, =LEVEL2
    ldr r1, =SECTION + 0xc3e
    str r1, [r0, #20]
    bl other_table
    ldr r0, =LEVEL2 + 0x400
    ldr r1, =SECTION + 0xb000 + 0xc3e
    str r1, [r0, #20]
    bl flush
    mov r5, #0
    mov r6, #0
3:  bl enter_space
    ldr r3, =WINDOW + 0x5000
    ldr r0, [r3]
    add r6, r0, r6, ror #27
    add r5, r5, #1
    cmp r5, #32
    blo 3b
    show ., r6
    bl leave_spaces
    pop {pc}

@ Vectors at VBAR and high, mapped, moved by the MMU, and gone.
vectors_by_mmu:
    push {lr}
    say "\nvectors"
    @ A page of vectors: SVC returns with R0 = its number.
    ldr r0, =SECTION + 0x10000
    mov r1, #1
1:  ldr r2, =0xe3a00000             @ MOV r0, #number
    orr r2, r2, r1
    str r2, [r0, #8]
    ldr r2, =0xe1b0f00e             @ MOVS pc, lr
    str r2, [r0, #12]
    add r0, r0, #0x1000
    add r1, r1, #1
    cmp r1, #5
    blo 1b
    ldr r0, =TABLES + 0x3ffc        @ 0xfff00000
    ldr r1, =LEVEL2 + 1
    str r1, [r0]
    ldr r0, =LEVEL2 + 0x3c0         @ 0xffff0000
    ldr r1, =SECTION + 0x10000 + 0x43e
    str r1, [r0]
    bl flush
    ldr r4, =SCTLR + (1 << 13)
    set_sctlr r4
    svc #0
    show high, r0
    ldr r0, =LEVEL2 + 0x3c0
    ldr r1, =SECTION + 0x12000 + 0x43e
    str r1, [r0]
    bl flush
    svc #0
    show high, r0
    ldr r4, =SCTLR
    set_sctlr r4
    vectors_at 0xffff0000
    svc #0
    show vbar, r0
    vectors_at SECTION + 0x13000
    svc #0
    show vbar, r0
    ldr r0, =SECTION + 0x10000
    mcr p15, 0, r0, c12, c0, 0
    svc #0
    show vbar, r0
    @ High vectors in a page that user code could not read.
    ldr r0, =LEVEL2 + 0x3c0
    ldr r1, =SECTION + 0x11000 + 0x41e
    str r1, [r0]
    bl flush
    ldr r4, =SCTLR + (1 << 13)
    set_sctlr r4
    svc #0
    ldr r4, =SCTLR
    set_sctlr r4
    show high, r0
    vectors_at vectors
    pop {pc}

    .ltorg
