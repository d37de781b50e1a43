@ The first store of the kernel to a page of its own range, since its TLB maintenance was about that page, without
@ leaving assembly: Linux maps a page of its fixmap for each word of its text that it patches, stores the word, and
@ unmaps it. This is vm/trap/fast_abort.rs's store_once, for a page from which no code was made. The word goes where the
@ guest's tables say, and nothing is mapped that the next maintenance would have to look for.
@
@ The trust rule: the guest's tables, and TTBR0, are checked against its RAM before they are followed, and so is where
@ they lead. A page on whose content anything rests is guarded (Shadow::page_hints), and is Rust's. What holds for long
@ is in Context::fast_faults, as in faults.s.

.section .text.world, "ax"
.arm

@ A Data Abort of the kernel that is none of those of interrupts.s. In: SP = the Cpu, R2 = the instruction's address, LR
@ = that + 8 and SPSR as the abort left them. R0 to R7 are saved at SP. Out: behind the instruction, or not_answered,
@ with nothing changed. Nothing here faults: what was executed can be read.
    HANDLER fast, "words that a kernel patches"
store_once:
    mrc p15, 0, r0, c6, c0, 0       @ DFAR
    ldr r1, [sp, #CTX_FORGOTTEN]
    mrc p15, 0, r3, c5, c0, 0       @ DFSR
    mrs r4, spsr
    ldr r5, [sp, #CTX_FAST_FAULTS]
    ldr r6, [sp, #CTX_SPACE_SWITCHED]
    ldr r7, [sp, #CTX_PATCHES_CODE]
    eor r1, r1, r0
    eor r3, r3, #5                  @ 0b00101, 0b00111 (table B3-23)
    lsrs r1, r1, #12                @ that page
    tsteq r4, #NOT_USR              @ User mode
    tsteq r4, #PSR_ET
    eor r3, r3, #0x800              @ WnR
    tsteq r3, #0x0d
    tsteq r3, #0xc00
    teqeq r5, #1
    teqeq r6, #0
    teqeq r7, #0                    @ the last one was in code, which is Rust's, and so is this one, most likely
    tsteq r0, #3
    bne not_answered
    ldr r7, [r2]
    cmp r0, #PAGEWISE_FROM
    blo not_answered
    ldr r3, =0x0f700000             @ STR of a word at an immediate offset, the base stays (A8.8.203, 204)
    cmp r7, #0xf0000000
    and r3, r3, r7
    ubfx r1, r7, #12, #4            @ Rt
    bhs not_answered
    cmp r3, #0x05000000
    bne not_answered
    cmp r1, #12
    bhi not_answered
    add r3, sp, #4 * 8
    stmia r3, {{r8-r12}}

    BEGIN_WALK
    ldr r2, [sp, #CTX_PAGE]
    ldr r6, [sp, #CTX_RAM_HOST]     @ where that is
    bfc r3, #0, #14
    sub r3, r3, r4
    cmp r3, r5
    bhs store_unanswered
    add r3, r3, r6
    lsr r7, r0, #20
    ldr r3, [r3, r7, lsl #2]        @ the first-level entry
    ldr r2, [r2, #PAGE_DACR]
    and r7, r3, #3
    cmp r7, #1
    ubfx r7, r3, #5, #4             @ its domain
    bne store_unanswered
    bfc r3, #0, #10
    sub r3, r3, r4
    cmp r3, r5
    bhs store_unanswered
    add r3, r3, r6
    lsr r2, r2, r7
    lsr r2, r2, r7
    ubfx r7, r0, #12, #8
    ldr r3, [r3, r7, lsl #2]        @ the second-level entry
    and r2, r2, #3
    cmp r2, #1                      @ of a client domain
    bne store_unanswered
    eor r2, r3, #2
    tst r2, #0x200                  @ AP[2], and a small page
    tsteq r2, #2
    bne store_unanswered
    tst r2, #0x30                   @ AP[1:0]: the kernel may write
    beq store_unanswered
    bfc r3, #0, #12
    sub r3, r3, r4
    cmp r3, r5
    bhs store_unanswered
    ldr r4, [sp, #CTX_HINTS]
    lsr r7, r3, #12
    ldr r4, [r4, r7, lsl #2]
    bfc r0, #12, #20
    cmn r4, #-HINT_GUARDED
    beq store_unanswered
    ldr r1, [sp, r1, lsl #2]
    add r3, r3, r6
    mov r4, #0
    str r1, [r3, r0]
    str r4, [sp, #CTX_FORGOTTEN]
    COUNT CTX_PATCHES
    WORDS CTX_KERNEL + VIEW_REGION_TTBR0, CTX_KERNEL + VIEW_TTBR0, CTX_KERNEL + VIEW_CONTEXTIDR
    sub r7, sp, #-(CTX_KERNEL + VIEW_REGION_TTBR0)
    ldm r7, {{r0, r1, r3}}
    CHANGE_TABLES r0, r1, r3        @ the return synchronises
    ldmia sp, {{r0-r7}}
    subs pc, lr, #4
store_unanswered:
    sub r7, sp, #-(CTX_KERNEL + VIEW_REGION_TTBR0)
    ldm r7, {{r0, r1, r3}}
    CHANGE_TABLES r0, r1, r3
    isb
    b not_answered
    .ltorg
