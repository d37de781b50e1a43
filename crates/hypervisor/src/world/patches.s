@ The first store of the kernel to a page of its own range, since its TLB maintenance was about that page, without
@ leaving assembly: Linux maps a page of its fixmap for each word of its text that it patches, stores the word, and
@ unmaps it. This is vm/trap/fast_abort.rs's store_once, for a page from which no code was made, or for one that runs in
@ place and of which Rust has said which words these may be (Patching). The word goes where the guest's tables say, and
@ nothing is mapped that the next maintenance would have to look for.
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
    ldr r1, [sp, r1, lsl #2]
    beq patch_word
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

@ The same where the page has code. In: R0 = the place in the page, R1 = the word, R3 = the page's place in RAM, R6. The
@ word goes to the page's twin, too. What is fetched from that is made to see it as in engine/code.rs (B2.2.9, B3.12.3):
@ by the address where it is executed, if it is mapped there.
patch_word:
    WORDS CTX_PATCHING_PAGE, CTX_PATCHING_LEFT, CTX_PATCHING_TWIN, CTX_PATCHING_VA, CTX_PATCHING_PA
    WORDS CTX_PATCHING_PA, CTX_PATCHING_MAY_BE_REPLACED, CTX_PATCHING_FREE
    sub r7, sp, #-CTX_PATCHING_PAGE
    ldm r7!, {{r2, r4, r8, r9, r10, r11}}
    lsr r12, r0, #7
    ldr r12, [r7, r12, lsl #2]      @ 32 words' bits
    ldrb r11, [r11, r1, lsr #20]
    lsr r5, r0, #2
    and r5, r5, #31
    cmp r2, r3
    lsr r12, r12, r5
    eoreq r12, r12, #1
    tsteq r12, #1
    cmpeq r11, #0
    bne 9f
    subs r4, r4, #1
    blo 9f
    COUNTS "trap.protected-write"
    str r4, [sp, #CTX_PATCHING_LEFT]
    add r3, r3, r6
    mov r4, #0
    str r1, [r3, r0]
    str r1, [r8, r0]!
    mcr p15, 0, r8, c7, c11, 1      @ DCCMVAU
    str r4, [sp, #CTX_FORGOTTEN]
    sub r7, sp, #-(CTX_KERNEL + VIEW_REGION_TTBR0)
    ldm r7, {{r3, r4, r5}}
    CHANGE_TABLES r3, r4, r5        @ with a DSB behind the clean
    cmp r9, #0
    beq 2f
    isb
    mcr p15, 0, r9, c7, c8, 0       @ ATS1CPR
    isb
    mrc p15, 0, r3, c7, c4, 0       @ PAR
    add r9, r9, r0
    tst r3, #1
    bfc r3, #0, #12
    cmpeq r3, r10
    bne 1f
    mcr p15, 0, r9, c7, c5, 1       @ ICIMVAU
    mcr p15, 0, r9, c7, c5, 7       @ BPIMVA
    b 3f
1:  mcr p15, 0, r9, c7, c5, 0       @ ICIALLU
    mcr p15, 0, r9, c7, c5, 6       @ BPIALL
3:  dsb                             @ the return synchronises
2:  add r3, sp, #4 * 8
    ldmia r3, {{r8-r12}}
    ldmia sp, {{r0-r7}}
    subs pc, lr, #4
9:  add r3, sp, #4 * 8
    ldmia r3, {{r8-r12}}
    b store_unanswered
    .ltorg
