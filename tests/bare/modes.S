@ Register banks, status registers, and the instructions that reach across modes; each with its condition true and
@ false.

    .include "runtime.inc"

    @ R0 to R14 and the SPSR as a checksum, with SP and LR in the clear: a bank that is mixed up shows in any of them.
    .macro bank mode
    cps #\mode
    bl show_bank
    .endm

    .global main
main:
    push {r4-r12, lr}
    bl banks
    bl fields
    bl moves
    bl user_bank
    bl return_state
    bl unprivileged
    bl returns
    bl into_user
    bl conditions
    pop {r4-r12, pc}

@ Keeps nothing but the bank it shows, uses none of its stack.
show_bank:
    ldr r0, =kept_lr
    str lr, [r0]
    mrs r4, cpsr
    and r5, r4, #31
    mov r6, sp
    mov r7, #0
    cmp r5, #MODE_SYS
    mrsne r7, spsr
    add r0, r8, r9, ror #7
    add r0, r0, r10, ror #14
    add r0, r0, r11, ror #21
    add r0, r0, r12, ror #28
    @ Print in System mode's stack.
    mov r10, lr
    cps #MODE_SVC
    say "\n "
    show cpsr, r4
    show sp, r6
    show spsr, r7
    show r8_12, r0
    msr cpsr_c, r5                  @ masks open for a moment: nothing is pending
    ldr r0, =kept_lr
    ldr pc, [r0]

banks:
    say "\nbanks"
    push {lr}
    ldr r0, =kept_sp
    str sp, [r0]
    @ Give each bank its own values.
    .macro fill mode, n
    cps #\mode
    ldr sp, =0x11110000 + \n
    ldr lr, =0x22220000 + \n
    .if \mode != MODE_SYS
    ldr r0, =0x30000010 + (\n << 16)
    msr spsr_cxsf, r0
    .endif
    .endm
    ldr r8, =0x88888801
    ldr r9, =0x99999901
    ldr r10, =0xaaaaaa01
    ldr r11, =0xbbbbbb01
    ldr r12, =0xcccccc01
    fill MODE_SYS, 1
    fill MODE_IRQ, 2
    fill MODE_ABT, 3
    fill MODE_UND, 4
    fill MODE_FIQ, 5
    ldr r8, =0x88888802
    ldr r9, =0x99999902
    ldr r10, =0xaaaaaa02
    ldr r11, =0xbbbbbb02
    ldr r12, =0xcccccc02
    ldr r1, =SCRATCH
    .macro save mode
    cps #\mode
    .if \mode != MODE_SYS
    mrs r0, spsr
    .endif
    str r0, [r1], #4
    stm r1!, {r8-r12}
    str sp, [r1], #4
    str lr, [r1], #4
    .endm
    save MODE_SYS
    save MODE_FIQ
    save MODE_IRQ
    save MODE_FIQ
    save MODE_UND
    save MODE_ABT
    save MODE_FIQ
    save MODE_SYS
    @ The same by MSR, whose mode the translator cannot know.
    .macro go mode
    mov r0, #\mode | 0xc0
    msr cpsr_c, r0
    .endm
    .macro save_by_msr mode
    go \mode
    str r0, [r1], #4
    stm r1!, {r8-r12}
    str sp, [r1], #4
    str lr, [r1], #4
    .endm
    save_by_msr MODE_FIQ
    save_by_msr MODE_SVC
    save_by_msr MODE_ABT
    save_by_msr MODE_FIQ
    save_by_msr MODE_SYS
    save_by_msr MODE_IRQ
    save_by_msr MODE_UND
    go MODE_SVC
    ldr r0, =kept_sp
    ldr sp, [r0]
    mov r4, r1
    ldr r5, =SCRATCH
    bl dump
    bl set_other_stacks
    pop {pc}

@ Prints the words from R5 to R4.
dump:
    push {lr}
1:  cmp r5, r4
    bhs 3f
    tst r5, #28
    bne 2f
    say "\n "
2:  ldr r0, [r5], #4
    show ., r0
    b 1b
3:  pop {pc}

@ As `set_stacks`, which sets Supervisor mode's as well.
set_other_stacks:
    push {lr}
    mov r0, sp
    mov r1, lr
    bl set_stacks
    mov sp, r0
    pop {pc}

fields:
    say "\nfields"
    push {lr}
    .macro psr_shown reg, field
    mrs r1, \reg
    bic r1, r1, #0x00f00000         @ reserved: cores differ
    show \reg\()_\field, r1
    .endm
    .macro psr_field reg, field, value
    ldr r0, =\value
    msr \reg\()_\field, r0
    psr_shown \reg, \field
    .endm
    .macro psr_immediate reg, field, value
    msr \reg\()_\field, #\value
    psr_shown \reg, \field
    .endm
    psr_field spsr, cxsf, 0xffffffff
    psr_field spsr, cxsf, 0
    psr_field spsr, c, 0x5a5a5a5a
    psr_field spsr, x, 0xa5a5a5a5
    psr_field spsr, s, 0x3c3c3c3c
    psr_field spsr, f, 0xc3c3c3c3
    psr_field spsr, fs, 0x12345678
    psr_field spsr, xc, 0x9abcdef0
    psr_immediate spsr, cxsf, 0xf0000000
    psr_immediate spsr, c, 0x10
    psr_field cpsr, f, 0xffffffff
    psr_field cpsr, s, 0xffffffff
    psr_field cpsr, f, 0x5fffffff
    psr_field cpsr, s, 0x00050000
    psr_field cpsr, x, 0x00000100
    psr_field cpsr, x, 0x00000000
    psr_field cpsr, fsx, 0xa80a0100
    psr_immediate cpsr, c, 0x13     @ all unmasked
    psr_immediate cpsr, c, 0xd3
    psr_immediate cpsr, c, 0x53
    psr_immediate cpsr, c, 0x93
    psr_immediate cpsr, f, 0x60000000
    psr_field cpsr, c, 0xffffffd3   @ upper bytes untouched
    psr_immediate cpsr, cxsf, 0x1d3 & 0xd3
    cpsie a
    mrs r1, cpsr
    show cpsr, r1
    cpsid aif
    mrs r1, cpsr
    show cpsr, r1
    cpsie if
    mrs r1, cpsr
    show cpsr, r1
    cpsid i, #MODE_SYS
    mrs r1, cpsr
    cpsie f, #MODE_SVC
    show cpsr, r1
    mrs r1, cpsr
    show cpsr, r1
    cpsid aif
    @ Flags across all of that
    msr cpsr_f, #0xf8000000
    msr cpsr_s, #0x000f0000
    cpsie i
    cpsid i
    cps #MODE_SYS
    cps #MODE_SVC
    mrs r1, cpsr
    show flags, r1
    mrc p15, 0, r15, c1, c0, 0      @ flags from SCTLR[31:28]: all zero
    mrs r1, cpsr
    show mrc_pc, r1
    msr cpsr_fs, #0
    pop {pc}

@ Conditional MRS, MSR, CPS does not exist; and what writes registers only if its condition holds.
moves:
    say "\nmoves"
    push {lr}
    ldr r0, =0x55
    msr spsr_cxsf, r0
    mov r2, #7
    cmp r2, #7
    mrsne r2, spsr
    show mrsne, r2
    mrseq r2, spsr
    show mrseq, r2
    mov r2, #1
    cmp r2, #2
    mrshs r2, cpsr
    show mrshs, r2
    mrslo r2, cpsr
    show mrslo, r2
    msrhs spsr_c, #0x10
    mrs r2, spsr
    show msrhs, r2
    msrlo spsr_c, #0x10
    mrs r2, spsr
    show msrlo, r2
    msreq cpsr_c, #MODE_SYS | 0xc0
    mrs r2, cpsr
    show msreq, r2
    msrne cpsr_c, #MODE_SYS | 0xc0
    mrs r2, cpsr
    cps #MODE_SVC
    show msrne, r2
    mov r2, #0x1100
    cmp r2, #0
    mcreq p15, 0, r2, c13, c0, 4
    mrc p15, 0, r3, c13, c0, 4
    show mcreq, r3
    mcrne p15, 0, r2, c13, c0, 4
    mrcne p15, 0, r3, c13, c0, 4
    show mcrne, r3
    mrceq p15, 0, r2, c13, c0, 4
    mcrne p15, 0, r2, c13, c0, 3
    mrcne p15, 0, r3, c13, c0, 3
    show tpidruro, r3
    mcrne p15, 0, r2, c13, c0, 2
    mrcne p15, 0, r3, c13, c0, 2
    show tpidrurw, r3
    smceq #0
    svceq #0
    udfs: .word 0x07f000f0
    bkpt_never: wfieq
    wfeeq
    seveq
    nopeq
    clrex
    pop {pc}

    .macro user_words
    cps #MODE_SYS
    ldr r8, =0x81000000
    ldr r9, =0x91000000
    ldr r10, =0xa1000000
    ldr r11, =0xb1000000
    ldr r12, =0xc1000000
    ldr sp, =0xd1000000
    ldr lr, =0xe1000000
    .endm

@ LDM and STM of the User bank from every mode.
user_bank:
    say "\nuser bank"
    push {lr}
    .macro user_from mode
    say "\n \mode:"
    user_words
    cps #\mode
    mov r0, #\mode
    ldr r1, =SCRATCH
    mov r2, #2
    mov r3, #3
    .if \mode == MODE_FIQ
    ldr r8, =0x82000000
    ldr r12, =0xc2000000
    .endif
    stm r1, {r0, r2, r8-r12, sp, lr}^
    nop
    add r2, r1, #64
    stmib r2, {sp, lr}^
    nop
    add r2, r1, #128
    stmda r2, {r1, r12, sp}^
    nop
    stmdb r2, {r3}^
    nop
    add r2, r1, #128
    stm r2, {r0-lr}^
    nop
    cmp r2, r2
    stmne r1, {sp, lr}^
    nop
    ldr r3, =words
    ldm r3, {r8-r12, sp, lr}^
    nop
    ldmne r3, {r4, sp, lr}^
    nop
    add r2, r1, #192
    stmeq r2, {r8-r12, sp, lr}^
    nop
    add r2, r1, #224
    stm r2, {r8-r12}
    ldmib r3, {r4, r5, r13}^
    nop
    add r2, r3, #32
    ldmda r2, {r6, r14}^
    nop
    ldmdb r2, {r7}^
    nop
    add r2, r1, #256
    stm r2, {r4-r7}
    add r2, r1, #272
    stm r2, {sp, lr}^
    nop
    cps #MODE_SVC
    ldr r5, =SCRATCH
    add r4, r5, #280
    bl dump
    .endm
    user_from MODE_SVC
    user_from MODE_IRQ
    user_from MODE_ABT
    user_from MODE_UND
    user_from MODE_FIQ
    bl set_other_stacks
    pop {pc}

    .ltorg

@ SRS and RFE.
return_state:
    say "\nreturn state"
    push {lr}
    ldr r4, =SCRATCH + 0x100
    ldr r0, =0xf80f0113
    msr spsr_cxsf, r0
    ldr lr, =0x12345678
    .macro state instruction:vararg
    cps #MODE_ABT
    mov sp, r4
    cps #MODE_SVC
    \instruction
    cps #MODE_ABT
    mov r0, sp
    cps #MODE_SVC
    show sp, r0
    .endm
    @ LR is live here: print without calls that need it kept
    mov r6, lr
    state srsia sp, #MODE_ABT
    mov lr, r6
    state srsia sp!, #MODE_ABT
    mov lr, r6
    state srsib sp!, #MODE_ABT
    mov lr, r6
    state srsda sp!, #MODE_ABT
    mov lr, r6
    state srsdb sp!, #MODE_ABT
    mov lr, r6
    mov r7, sp
    sub sp, sp, #64
    srsdb sp!, #MODE_SVC
    sub r0, r7, sp
    show srs_own, r0
    ldm sp, {r0, r1}
    mov sp, r7
    show lr, r0
    show spsr, r1
    cps #MODE_SYS
    ldr sp, =SCRATCH + 0x200
    cps #MODE_SVC
    srsia sp!, #MODE_SYS
    cps #MODE_SYS
    mov r0, sp
    cps #MODE_SVC
    show srs_sys, r0
    ldr r5, =SCRATCH + 0xe8
    add r4, r5, #0x30
    bl dump
    @ RFE: to every mode, with flags and masks
    .macro return_to mode, psr, suffix, before, writeback
    ldr r2, =SCRATCH
    adr r0, 1f
    ldr r1, =\psr | \mode
    stm r2, {r0, r1}
    add r2, r2, #\before
    .ifnb \writeback
    rfe\suffix r2!
    .else
    rfe\suffix r2
    .endif
    udf #99
1:  mrs r1, cpsr
    cps #MODE_SVC
    show cpsr, r1
    show base, r2
    .endm
    say "\n rfe"
    return_to MODE_SYS, 0xf8000000, ia, 0
    return_to MODE_FIQ, 0x000f0100, ia, 0, 1
    return_to MODE_IRQ, 0x000f01c0, ib, -4, 1
    return_to MODE_ABT, 0x80000080, da, 4, 1
    return_to MODE_UND, 0x400000c0, db, 8, 1
    return_to MODE_SVC, 0x200001c0, db, 8
    return_to MODE_SVC, 0x000001c0, da, 4
    cpsid aif
    bl set_other_stacks
    @ To user mode, both instruction sets
    ldr r2, =SCRATCH
    ldr r0, =by_rfe_arm
    ldr r1, =0xa80f0010
    stm r2, {r0, r1}
    ldr r0, =user_caller
    push {r4-r12}
    adr r1, 2f
    push {r1}
    @ run_user's frame has LR on top of R4 to R12
    pop {r1}
    mov lr, r1
    pop {r4-r12}
    push {r4-r12, lr}
    str sp, [r0]
    rfeia r2
2:  ldr r2, =SCRATCH
    ldr r0, =by_rfe_thumb + 1       @ bit 0 is ignored: the PSR says which
    ldr r1, =0x580f0030
    stm r2, {r0, r1}
    ldr r0, =user_caller
    adr lr, 3f
    push {r4-r12, lr}
    str sp, [r0]
    rfeia r2
3:  pop {pc}

by_rfe_arm:
    mov r0, #1
    svc #LEAVE
    .thumb
by_rfe_thumb:
    movs r0, #2
    svc #LEAVE
    .arm
    .balign 4
    .ltorg

@ The loads and stores with user permissions; what they fault on is the business of the MMU's tests.
unprivileged:
    say "\nunprivileged"
    push {lr}
    ldr r1, =SCRATCH
    ldr r0, =0x89abcdef
    str r0, [r1]
    str r0, [r1, #4]
    str r0, [r1, #8]
    mov r4, r1
    mov r3, #4
    ldrt r0, [r4], #4
    show ldrt, r0
    ldrt r0, [r4], -r3
    show ldrt, r0
    ldrbt r0, [r4], #1
    show ldrbt, r0
    ldrht r0, [r4], #3
    show ldrht, r0
    ldrsht r0, [r4], -r3
    show ldrsht, r0
    ldrsbt r0, [r4], #1
    show ldrsbt, r0
    ldrt r0, [r4], r3, lsl #1
    show unaligned, r0
    show base, r4
    mov r4, r1
    ldr r0, =0x01234567
    strt r0, [r4], #4
    strbt r0, [r4], #1
    strht r0, [r4], #1
    strt r0, [r4], r3, ror #2
    show base, r4
    ldm r1, {r0, r2, r3, r4}
    show ., r0
    show ., r2
    show ., r3
    mov r4, r1
    mov r0, #0
    cmp r0, #0
    ldrtne r0, [r4], #4
    show ne, r0
    show base, r4
    ldrteq r0, [r4], #4
    show eq, r0
    show base, r4
    strtne r0, [r4], #4
    strteq r0, [r4], #4
    show base, r4
    ldr r0, [r1, #4]
    show ., r0
    pop {pc}

@ Exception returns within the kernel, in every form.
returns:
    say "\nreturns"
    push {lr}
    .macro return_by psr, target, instructions
    ldr r0, =\psr
    msr spsr_cxsf, r0
    ldr lr, =9f + \target
    \instructions
    udf #98
9:  mrs r1, cpsr
    mov r2, sp
    cps #MODE_SVC
    show cpsr, r1
    .endm
    return_by 0xf80f01d3, 0, "movs pc, lr"
    return_by 0x600001d1, 4, "subs pc, lr, #4"
    return_by 0x800000d2, 8, "subs pc, lr, #8"
    @ ADDS, ORRS, MVNS and their like are missing: QEMU 7.2 takes them for plain branches (B9.3.20 does not).
    return_by 0x080001d3, 2, "movs pc, lr"       @ bits 1:0 are dropped
    mov r3, #4
    return_by 0xf00001d3, 8, "subs pc, lr, r3, lsl #1"
    mov r3, #1
    return_by 0x900001d3, 16, "subs pc, lr, r3, ror #28"
    mov r3, #2
    return_by 0x500001d3, 8, "sub lr, lr, r3, lsl r3 ; movs pc, lr"
    return_by 0xc00001d3, 0, "push {r3, lr} ; ldm sp!, {r3, pc}^"
    return_by 0xb00001d3, 0, "push {r3, lr} ; ldm sp, {r3, pc}^"
    add sp, sp, #8
    return_by 0xa00001d2, 0, "push {r3, lr} ; add r4, sp, #8 ; pop {r5, r6} ; ldmdb r4!, {r3, pc}^"
    cmp r0, r0
    movsne pc, lr
    ldmne sp, {r3, pc}^
    cpsid aif
    mrs r1, cpsr
    show cpsr, r1
    bl set_other_stacks
    pop {pc}

    .ltorg

@ From the kernel straight into User mode: by CPS and MSR, which fall through to the next instruction.
into_user:
    say "\ninto user"
    push {lr}
    cps #MODE_SYS
    ldr sp, =STACK_SYS
    ldr lr, =0x12121212
    cps #MODE_SVC
    .macro drop instruction
    adr lr, 9f
    push {r4-r12, lr}
    ldr r0, =user_caller
    str sp, [r0]
    pattern
    \instruction
    mov r1, sp
    mov r2, lr
    cps #MODE_SVC                   @ no effect from here on
    cpsid aif
    mrc p15, 0, r3, c1, c0, 0       @ undefined
    svc #LEAVE
9:
    .endm
    drop "cps #MODE_USR"
    drop "cpsie if, #MODE_USR"
    drop "msr cpsr_c, #MODE_USR"
    mov r4, #MODE_USR
    mrs r5, cpsr
    bic r5, r5, #0x1f
    orr r5, r5, #MODE_USR
    .macro drop_by reg
    adr lr, 9f
    push {r4-r12, lr}
    ldr r0, =user_caller
    str sp, [r0]
    mov r0, #0
    msr cpsr_c, \reg
    mov r1, sp
    mov r2, lr
    add r0, r0, #1
    udf #5
    svc #LEAVE
9:
    .endm
    drop_by r4
    drop_by r5
    mrs r0, cpsr
    show cpsr, r0
    pop {pc}

@ Branches of every kind, taken and not.
conditions:
    say "\nconditions"
    push {lr}
    mov r10, #0
    mov r4, #0
    .macro try instruction:vararg
    mov r10, r10, lsl #1
    adr r0, 9f
    \instruction
    orr r10, r10, #1
9:
    .endm
next_flags:
    msr cpsr_f, r4
    mov r10, #0
    .irp cond, eq, ne, hs, lo, mi, pl, vs, vc, hi, ls, ge, lt, gt, le
    try b\cond 9f
    try bx\cond r0
    try mov\cond pc, r0
    .endr
    show branches, r10
    msr cpsr_f, r4
    mov r10, #0
    .irp cond, eq, ne, hs, lo, mi, pl, vs, vc, hi, ls, ge, lt, gt, le
    bl\cond count
    .endr
    show calls, r10
    msr cpsr_f, r4
    ldr r1, =count
    mov r10, #0
    .irp cond, eq, ne, hs, lo, mi, pl, vs, vc, hi, ls, ge, lt, gt, le
    blx\cond r1
    .endr
    show calls, r10
    mrs r0, cpsr
    show cpsr, r0
    add r4, r4, #0x10000000
    cmp r4, #0
    bne next_flags
    pop {pc}

count:
    add r10, lr, r10, ror #27
    bx lr

    .ltorg

    .section .data
words:
    .word 0x80800000, 0x80800001, 0x80800002, 0x80800003, 0x80800004, 0x80800005, 0x80800006, 0x80800007
    .word 0x80800008, 0x80800009
kept_lr:
    .word 0
kept_sp:
    .word 0
    .section .text
