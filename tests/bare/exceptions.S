@ Every kind of synchronous exception, from every mode and both instruction sets of user code, with all that the
@ architecture says about what its handler finds.

    .include "runtime.inc"

    @ Runs `synchronous` in a mode.
    .macro in_mode mode, name
    say "\n\name"
    cps #\mode
    bl synchronous
    cps #MODE_SVC
    .endm

    @ User mode reads A, I and F as UNKNOWN (B9.3.8).
    .macro user_cpsr
    mrs r0, cpsr
    bic r0, r0, #0x1c0
    setend le
    show cpsr, r0
    .endm

    .global main
main:
    push {r4-r12, lr}
    in_mode MODE_SVC, svc
    in_mode MODE_SYS, sys
    in_mode MODE_IRQ, irq
    in_mode MODE_ABT, abt
    in_mode MODE_UND, und
    in_mode MODE_FIQ, fiq

    say "\nmasks"
    cpsie aif
    svc #1
    udf #1
    bkpt #1
    cpsid f
    cpsie a
    svc #1
    udf #1
    bkpt #1
    cpsid i
    svc #1
    udf #1
    bkpt #1
    cpsid aif

    say "\nuser, A32"
    user arm_user
    user arm_user, 0xf80f0000
    say "\nuser, T32"
    user thumb_user + 1
    user thumb_user + 1, 0xa8050000

    say "\nundefined encodings"
    pattern
    .word 0xe7ffffff                @ UDF
    .word 0xe6000010                @ media, unallocated
    .word 0xec510000                @ MRRC of coprocessor 0
    .word 0xee000010                @ MCR of coprocessor 0
    .word 0xee100110                @ MRC of coprocessor 1
    .word 0xee000100                @ CDP
    .word 0xed900100                @ LDC
    .word 0xee000a10                @ VMOV with VFP off
    .word 0xf2000000                @ Advanced SIMD with VFP off
    .word 0x07ffffff                @ the same by EQ
    .word 0xf7f0a0ff                @ unconditional space
    .word 0xff000000                @ unconditional space
    pop {r4-r12, pc}

    .ltorg

@ All of them, in whatever mode this is called in.
synchronous:
    push {lr}
    pattern
    svc #0
    pattern
    msr cpsr_f, #0xf8000000
    svc #0x123456
    msr cpsr_f, #0
    sveq_not_taken:
    svceq #2
    udfeq_not_taken:
    .word 0x07f000f0
    movs r0, #0
    svceq #3
    .word 0x07f000f0                @ UDF, EQ
    pattern
    udf #0
    msr cpsr_s, #0x000f0000
    msr cpsr_f, #0x28000000
    udf #0xffff
    bkpt #0x1234
    pattern
    ldr r12, =ABSENT
    ldr r1, [r12]
    show loaded, r1
    str r1, [r12, #4]!
    show base, r12
    ldrb r2, [r12, #3]
    strh r2, [r12], #8
    show base, r12
    ldm r12!, {r0-r3}
    stmdb r12!, {r0-r3}
    show base, r12
    ldrd r0, r1, [r12]
    .word 0xe10c0091                @ SWP r0, r1, [r12]
    ldrex r0, [r12]
    resume_at 1f
    bx r12
1:  show base, r12
    resume_at 1f
    mov lr, pc
    ldr pc, =ABSENT + 0x1000
1:  resume_at 1f
    push {r12}
    pop {pc}
1:  @ misaligned, where the architecture always checks
    add r12, sp, #-64
    ldm r12, {r0, r1}               @ aligned
    orr r12, r12, #2
    ldm r12, {r0, r1}
    stm r12, {r0, r1}
    ldrd r0, r1, [r12]
    strd r0, r1, [r12]
    ldrex r0, [r12]
    msr cpsr_f, #0
    msr cpsr_s, #0
    pop {pc}

    .ltorg

arm_user:
    svc #0
    udf #7
    svceq #1
    svcne #2
    bkpt #3
    mrc p15, 0, r0, c1, c0, 0       @ not for user code
    mcr p15, 0, r0, c3, c0, 0
    smc #0
    ldr r12, =ABSENT
    ldr r1, [r12, #8]!
    str r1, [r12], #8
    show base, r12
    resume_at 1f
    bx r12
1:  resume_at 1f
    adr r0, 2f
    orr r0, r0, #1
    bx r0
2:  .thumb
    udf #9
    .arm
    .balign 4
1:  cps #MODE_SVC                   @ no effect in User mode
    cpsie i
    user_cpsr
    mvn r0, #0
    msr cpsr_c, r0
    msr cpsr_x, r0
    user_cpsr
    setend be
    user_cpsr
    mov r0, #0
    msr cpsr_fsxc, r0
    user_cpsr
    svc #LEAVE

    .ltorg

    .thumb
thumb_user:
    @ After each exception but a supervisor call, the handler's resume address is used: it must name the next one.
    .macro after label
    ldr r0, =resume
    ldr r1, =\label + 1
    str r1, [r0]
    .endm
    svc #0
    after 1f
    udf #7
1:  after 1f
    udf.w #7
1:  after 1f
    bkpt #1
1:  after 1f
    ldr r2, =ABSENT
    ldr r3, [r2]
1:  after 1f
    ldr.w r3, [r2, #4]!
1:  after 1f
    stm.w r2!, {r0, r1}
1:  after 1f
    cmp r0, r0
    itte eq
    addeq r3, #1
    ldreq r3, [r2]
    addne r3, #2
1:  after 1f
    cmp r0, r0
    ittee ne
    addne r3, #1
    addne r3, #1
    udfeq:
    .inst.n 0xde01
    addeq r3, #2
1:  cmp r0, r0
    itt eq
    svceq #1
    svceq #2
    after 1f
    bx r2
1:  after 1f
    mrc p15, 0, r0, c1, c0, 0
1:  svc #LEAVE
    .ltorg
    .arm
