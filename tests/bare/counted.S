@ Code that is executed as often as its labels say: each instruction from a label `xN_…` to the next one N times, in one
@ round. A round is made at the start, and one for each key that is typed.

    .include "runtime.inc"
    .include "clock.inc"
    .include "keys.inc"

    @ Nothing answers there.
    .equ NOWHERE, 0x30000000

    .global main
main:
    push {r4-r12, lr}
    bl keys_on
1:  bl round
    say "done\n"
    bl key
    b 1b

    .ltorg

round:
x1_begin:
    push {r4-r12, lr}
    mrc p15, 0, r12, c12, c0, 0
    vectors_at own_vectors
    mov r4, #100
x100_loop:
    subs r4, r4, #1
    bne x100_loop
x1_even:
    mov r4, #10
    mov r5, #0
x10_head:
    tst r4, #1
    addne r5, r5, #1                @ executed, be its condition false
    beq x10_tail
x5_odd:
    add r5, r5, #1
x10_tail:
    subs r4, r4, #1
    bne x10_head
x1_calls:
    mov r4, #7
x7_call:
    mov r0, r4
    bl callee
    cmp r4, #3
    blls last
    ldr r1, =indirect
    blx r1
    subs r4, r4, #1
    bne x7_call
x1_load:
    ldr r6, =NOWHERE
    mov r0, #1
    mrs r7, cpsr
x0_aborts:
    ldr r0, [r6]                    @ the handler goes on behind it
x1_store:
    add r0, r0, #1
x0_aborts_too:
    strb r0, [r6]
x1_store_multiple:
    mov r1, #2
x0_aborts_as_well:
    ldmia r6, {r0, r1}
x1_undefined:
    mov r1, #3
    udf #0
    mov r1, #4
    svc #1
    mov r1, #5
    mrs r2, cpsr
    msr cpsr_c, r2
    cpsid i
    nop
    mrc p15, 0, r2, c1, c0, 0
    mcr p15, 0, r2, c1, c0, 0       @ what it was: the translation regime may have changed all the same
    nop
    isb
    nop
    ldr r1, =SCRATCH
    ldrt r0, [r1]
    str r0, [r1, #4]
    ldr r2, =UART
    ldr r0, [r2, #0x18]             @ a device
    mcr p15, 0, r0, c8, c7, 0
    ldr r6, =0x80000000
    add r7, r6, #0x8000
x8_pages:
    mcr p15, 0, r6, c8, c7, 1
    add r6, r6, #0x1000
    cmp r6, r7
    blo x8_pages
x1_end:
    mcr p15, 0, r12, c12, c0, 0
    isb
    pop {r4-r12, pc}

callee:
x7_callee:
    cmp r0, #4
    bxlo lr
x4_callee:
    push {r4, lr}
    cmp r0, #6
    popeq {r4, pc}
x3_callee:
    add r0, r0, #1
    pop {r4, pc}

last:
x3_last:
    mov pc, lr

indirect:
x7_indirect:
    nop
    bx lr
x0_padding:
    .balign 32
own_vectors:
x0_reset:
    b .
x1_undefined_vector:
    b behind
x1_call_vector:
    b behind
x0_prefetch_vector:
    b .
x3_data_vector:
    b behind_access
x0_others:
    b .
    b .
    b .
behind:
x2_behind:
    movs pc, lr
behind_access:
x3_behind_access:
    subs pc, lr, #4
xend:
    nop

    .ltorg
