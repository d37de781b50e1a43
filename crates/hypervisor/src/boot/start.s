@ From the boot loader's jump to Rust.
@
@ The Linux ARM boot protocol: MMU off, data cache off, instruction cache either way, interrupts masked, r2 = physical
@ address of the device tree. All of this runs at whatever physical address the loader chose and is position
@ independent until it jumps to the link address.
@
@ Registers kept throughout: r4 = physical address of the image, r10 = device tree, r11 = its size (0 if there is none).

    .syntax unified
    .arch armv7-a
    .arch_extension sec
    .arch_extension virt
    .arm

    .section .head, "ax", %progbits
    .globl _start
    PART other, "start: bundle, device tree, boot"
@ In: R2 = the device tree, or what the loader left there. To entry.
_start:
    .rept 8
    mov     r0, r0
    .endr
    b       entry
    .word   0x016f2818              @ 0x24: zImage magic
    .word   0                       @ 0x28: start: position independent
    .word   __file_size             @ 0x2c: end: the size of the file
    .word   0x04030201              @ 0x30: endianness mark

@ In: R2 as the loader left it, any privileged mode. Out: R10 = R2, at supervisor. Uses R0, R1.
entry:
    mov     r10, r2

    @ A core with the virtualisation extensions may be entered in Hyp mode. Spica is built for cores without them and
    @ has no use for it: open what Hyp mode could trap, and drop to Supervisor mode (ARM ARM B4.1, B8.1).
    mrs     r0, cpsr
    and     r1, r0, #PSR_MODE
    cmp     r1, #MODE_HYP
    bne     supervisor
    mov     r1, #0
    mcr     p15, 4, r1, c1, c1, 0   @ HCR: trap nothing, no second stage
    mcr     p15, 4, r1, c1, c1, 3   @ HSTR: trap no coprocessor registers
    movw    r1, #0x33ff
    mcr     p15, 4, r1, c1, c1, 2   @ HCPTR: trap neither VFP nor CPACR (the ones are reserved, SBO)
    mrc     p15, 4, r1, c1, c1, 1
    and     r1, r1, #0x1f
    mcr     p15, 4, r1, c1, c1, 1   @ HDCR: all counters to the guest side (HPMN stays), trap nothing
    mrc     p15, 0, r1, c0, c0, 0
    mcr     p15, 4, r1, c0, c0, 0   @ VPIDR = MIDR
    mrc     p15, 0, r1, c0, c0, 5
    mcr     p15, 4, r1, c0, c0, 5   @ VMPIDR = MPIDR
    mrc     p15, 0, r1, c0, c1, 1   @ ID_PFR1[19:16]: is there a generic timer?
    tst     r1, #0x000f0000
    beq     1f
    mov     r1, #3
    mcr     p15, 4, r1, c14, c1, 0  @ CNTHCTL: physical counter and timer belong to PL1 too
    mov     r1, #0
    mcrr    p15, 4, r1, r1, c14     @ CNTVOFF = 0
1:  bic     r0, r0, #PSR_MODE
    orr     r0, r0, #MODE_SVC | PSR_IF
    orr     r0, r0, #PSR_A
    msr     spsr_cxsf, r0           @ (of Hyp mode: this one)
    adr     r1, supervisor
    msr     elr_hyp, r1
    eret

@ In: R10, in any mode but Hyp; running where the loader put it, MMU off. Out: R4, R10 and R11 as said above, at placed.
supervisor:
    cpsid   aif, #MODE_SVC

    @ The size of the device tree, if r2 points at one: an aligned address and the magic word, both big-endian.
    mov     r11, #0
    cmp     r10, #0
    beq     1f
    tst     r10, #3
    bne     1f
    ldr     r0, [r10]
    rev     r0, r0
    movw    r1, #0xfeed
    movt    r1, #0xd00d
    cmp     r0, r1
    bne     1f
    ldr     r11, [r10, #4]
    rev     r11, r11
1:
    @ How far must the image move (r6)? To the next address that is congruent to the link address modulo 1 MiB. A move
    @ by less than a page would overwrite this code while it runs: then a megabyte more. Nor may the image, with the
    @ memory behind it that it uses, lie over the device tree.
    adr     r4, _start
    movw    r0, #:lower16:__image_start
    movt    r0, #:upper16:__image_start
    sub     r6, r0, r4
    ubfx    r6, r6, #0, #MEGABYTE_BITS
    cmp     r6, #0
    beq     1f
    cmp     r6, #4096
    addlo   r6, r6, #MEGABYTE
1:  movw    r7, #:lower16:__image_end
    movt    r7, #:upper16:__image_end
    sub     r7, r7, r0              @ r7 = bytes of memory in use
2:  cmp     r11, #0
    beq     3f
    add     r8, r4, r6              @ the image's first byte and
    add     r9, r8, r7              @ the one after its last
    cmp     r10, r9
    bhs     3f
    add     r1, r10, r11
    cmp     r1, r8
    bls     3f
    add     r6, r6, #MEGABYTE
    b       2b
3:  cmp     r6, #0
    beq     placed

    @ Move it, from its end downwards, since the new place may overlap the old.
    movw    r8, #:lower16:__data_end
    movt    r8, #:upper16:__data_end
    sub     r8, r8, r0
    add     r8, r8, r4              @ r8 = end of the old place
    add     r9, r8, r6              @ r9 = end of the new place
4:  ldmdb   r8!, {{r0-r3}}
    stmdb   r9!, {{r0-r3}}
    cmp     r8, r4
    bhi     4b
    add     r4, r4, r6
    dsb
    mov     r0, #0
    mcr     p15, 0, r0, c7, c5, 0   @ ICIALLU: the instruction cache may be on
    mcr     p15, 0, r0, c7, c5, 6   @ BPIALL
    dsb
    isb
    adr     r1, placed
    add     r1, r1, r6
    bx      r1

@ In: R4, R10, R11. Running where the image is to stay, MMU off. Out: the same, at mapped.
placed:
    @ The caches are off but need not be empty. Level 1 data: invalidate by set and way (ARM ARM B2.2.7), as nothing in
    @ it is ours. Outer levels may hold what the loader wrote; of them, only the lines of the image's own memory go.
    mov     r0, #0
    mcr     p15, 2, r0, c0, c0, 0   @ CSSELR: level 1 data
    isb
    mrc     p15, 1, r0, c0, c0, 0   @ CCSIDR
    and     r1, r0, #7
    add     r1, r1, #4              @ r1 = log2 of the line size in bytes
    ubfx    r2, r0, #3, #10         @ r2 = ways - 1
    ubfx    r3, r0, #13, #15        @ r3 = sets - 1
    clz     r5, r2                  @ the way number is left-aligned in the operand
1:  mov     r6, r2
2:  lsl     r8, r6, r5              @ (a direct-mapped cache shifts by 32, which gives 0)
    orr     r8, r8, r3, lsl r1
    mcr     p15, 0, r8, c7, c6, 2   @ DCISW
    subs    r6, r6, #1
    bge     2b
    subs    r3, r3, #1
    bge     1b
    dsb

    mrc     p15, 0, r0, c0, c0, 1   @ CTR
    ubfx    r0, r0, #16, #4
    mov     r1, #4
    lsl     r1, r1, r0              @ r1 = smallest data line in bytes
    add     r2, r4, r7
    mov     r3, r4
3:  mcr     p15, 0, r3, c7, c6, 1   @ DCIMVAC
    add     r3, r3, r1
    cmp     r3, r2
    blo     3b
    dsb

    @ Cores whose caches work only as members of the coherency domain: A5, A7, A9, A12, A15, A17. ACTLR.SMP is bit 6
    @ there. Non-secure code may not be allowed to set it; then firmware has, and nothing is written.
    mrc     p15, 0, r0, c0, c0, 0   @ MIDR
    lsr     r1, r0, #24
    cmp     r1, #0x41
    bne     5f
    ubfx    r1, r0, #4, #12
    movw    r2, #0xc05
    cmp     r1, r2
    addne   r2, r2, #2              @ 0xc07
    cmpne   r1, r2
    addne   r2, r2, #2              @ 0xc09
    cmpne   r1, r2
    addne   r2, r2, #4              @ 0xc0d
    cmpne   r1, r2
    addne   r2, r2, #1              @ 0xc0e
    cmpne   r1, r2
    addne   r2, r2, #1              @ 0xc0f
    cmpne   r1, r2
    bne     5f
    mrc     p15, 0, r0, c1, c0, 1
    tst     r0, #0x40
    orreq   r0, r0, #0x40
    mcreq   p15, 0, r0, c1, c0, 1
    isb
5:
    @ The boot table: the image at its link address and at its physical one, and the device tree at its physical
    @ address, privileged, non-global under ASID 0. Rust replaces it at once (src/memory/host_space.rs). At its link
    @ address the image is mapped by small pages and large ones, as it will be: Rust runs there while it changes tables,
    @ and the TLB must not find two of different sizes for one address (ARM ARM B3.10.1). The rest are sections.
    movw    r0, #:lower16:__image_start
    movt    r0, #:upper16:__image_start
    movw    r5, #:lower16:__boot_table
    movt    r5, #:upper16:__boot_table
    sub     r5, r5, r0
    add     r5, r5, r4              @ r5 = physical address of the table
    mov     r1, #0
    add     r2, r5, #16384
6:  str     r1, [r2, #-4]!
    cmp     r2, r5
    bhi     6b

    movw    r1, #BOOT_SECTION & 0xffff
    movt    r1, #BOOT_SECTION >> 16
    cmp     r11, #0
    beq     7f
    lsr     r2, r10, #MEGABYTE_BITS
    add     r3, r10, r11
    sub     r3, r3, #1
    lsr     r3, r3, #MEGABYTE_BITS
    orr     r6, r1, #SECTION_XN
8:  orr     r8, r6, r2, lsl #MEGABYTE_BITS
    str     r8, [r5, r2, lsl #2]
    add     r2, r2, #1
    cmp     r2, r3
    bls     8b
7:  lsr     r2, r4, #MEGABYTE_BITS
    orr     r8, r1, r2, lsl #MEGABYTE_BITS
    str     r8, [r5, r2, lsl #2]
    movw    r6, #:lower16:__boot_pages
    movt    r6, #:upper16:__boot_pages
    sub     r6, r6, r0
    add     r6, r6, r4              @ r6 = physical address of the pages' table
    movw    r1, #BOOT_PAGES
    orr     r8, r6, r1
    lsr     r2, r0, #MEGABYTE_BITS
    .rept   IMAGE_MEGABYTES
    str     r8, [r5, r2, lsl #2]
    add     r2, r2, #1
    add     r8, r8, #1024
    .endr
    movw    r1, #BOOT_PAGE
    lsr     r8, r4, #MEGABYTE_BITS
    orr     r8, r1, r8, lsl #MEGABYTE_BITS
    mov     r3, #256 * IMAGE_MEGABYTES
6:  str     r8, [r6], #4
    add     r8, r8, #4096
    subs    r3, r3, #1
    bne     6b

    @ Large pages from the image's first byte, where one begins, to the last whole one of its constants, but for the one
    @ where text ends.
    movw    r1, #BOOT_LARGE_PAGE
    orr     r8, r4, r1
    movw    r2, #:lower16:__text_end
    movt    r2, #:upper16:__text_end
    lsr     r2, r2, #LARGE_PAGE_BITS
    movw    r3, #:lower16:__rodata_end
    movt    r3, #:upper16:__rodata_end
    lsr     r3, r3, #LARGE_PAGE_BITS
    sub     r6, r6, #1024 * IMAGE_MEGABYTES
    ubfx    r1, r0, #12, #8
    add     r6, r6, r1, lsl #2
    lsr     r0, r0, #LARGE_PAGE_BITS
6:  cmp     r0, r3
    bhs     7f
    cmp     r0, r2
    .irp    at, 0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60
    strne   r8, [r6, #\at]
    .endr
    add     r6, r6, #16 * 4
    add     r8, r8, #1 << LARGE_PAGE_BITS
    add     r0, r0, #1
    b       6b
7:  dsb

    @ Nothing stale may be used from here on: neither instructions nor predictions nor translations.
    mov     r0, #0
    mcr     p15, 0, r0, c7, c5, 0   @ ICIALLU
    mcr     p15, 0, r0, c7, c5, 6   @ BPIALL
    mcr     p15, 0, r0, c8, c7, 0   @ TLBIALL
    mcr     p15, 0, r0, c2, c0, 2   @ TTBCR = 0: TTBR0 alone, short descriptors
    mcr     p15, 0, r0, c13, c0, 1  @ CONTEXTIDR: ASID 0
    orr     r1, r5, #TTBR_WALK
    mcr     p15, 0, r1, c2, c0, 0   @ TTBR0
    movw    r1, #BOOT_DACR & 0xffff
    movt    r1, #BOOT_DACR >> 16
    mcr     p15, 0, r1, c3, c0, 0   @ DACR
    dsb
    isb

    mrc     p15, 0, r0, c1, c0, 0   @ SCTLR
    movw    r1, #0x1805             @ set I, Z, C, M
    orr     r0, r0, r1
    movw    r1, #0x2002             @ clear V, A
    movt    r1, #0x7218             @ clear TE, AFE, TRE, EE, UWXN, WXN, FI
    bic     r0, r0, r1
    ldr     r2, =mapped
    dsb
    mcr     p15, 0, r0, c1, c0, 0
    isb
    bx      r2

@ In: R4, R10, R11, the MMU and caches on. To rust_start, with R0 = R10, R1 = R11, R2 = R4.
mapped:
    @ At the link address now, with caches. The stack, then .bss.
    ldr     sp, =__stack_top
    ldr     r0, =__bss_start
    ldr     r1, =__bss_end
    mov     r2, #0
    mov     r3, #0
    mov     r5, #0
    mov     r6, #0
9:  cmp     r0, r1
    stmlo   r0!, {{r2, r3, r5, r6}}
    blo     9b

    mov     r0, r10
    mov     r1, r11
    mov     r2, r4
    bl      {rust_start}
    udf     #0
    .pool
