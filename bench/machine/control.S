@ What needs no help from a hypervisor: the ratio has to be 1.

    .include "common.inc"
    .text

    simple alu, 24, "eor r1, r2, r1, ror #3"

    simple memory, 6, "ldr r1, [r0]; str r1, [r0, #64]; ldr r2, [r0, #4]; str r2, [r0, #68]", init="ldr r0, =BUFFER", ops=24

    simple barriers, 8, "dmb; dsb", ops=16

@ What an atomic increment is to Linux.
    bench exclusives, exclusives, 4, check=exclusives_check
    .balign 64
exclusives:
    ldr r0, =BUFFER
    mov r1, #0
    str r1, [r0]
9:
    .rept 4
1:  ldrex r1, [r0]
    add r1, r1, #1
    strex r2, r1, [r0]
    teq r2, #0
    bne 1b
    .endr
    again
    b finished
exclusives_check:
    ldr r0, =BUFFER
    ldr r0, [r0]
    lsl r1, r10, #2
    bx lr
    .ltorg

@ User code runs natively under Spica.
    bench user-alu, user_alu, 24, vectors=leave_by_svc, loop=2
    .balign 32
user_alu:
    enter_user 1f
    .ltorg
    to_user
1:
9:
    .rept 24
    eor r1, r2, r1, ror #3
    .endr
    again
    svc #0
    end_user
