@ Looks for what is left in its RAM when it begins, and says so. Then it leaves words of its own there, and says that.
@ Then it is told by a key what to do: r, a reset; any other, the end. Parameter: its word.

    .include "runtime.inc"
    .include "clock.inc"
    .include "keys.inc"

    @ The device tree, and what Spica may have put beside it, are in the middle of RAM.
    .equ MIDDLE, 0x40800000
    .equ BEHIND, 0x40900000
    .equ END, 0x41000000

    @ Calls a function with each part of RAM: from R0 to R1.
    .macro in_both function
    ldr r0, =SCRATCH
    ldr r1, =MIDDLE
    bl \function
    ldr r0, =BEHIND
    ldr r1, =END
    bl \function
    .endm

    .global main
main:
    push {r4-r12, lr}
    bl keys_on
    get r4, parameters
    mov r5, #0
    mov r6, #0
    in_both look
    say "found"
    show own, r5
    show foreign, r6
    say "\n"
    in_both leave
    say "left\n"
    bl key
    cmp r0, #'r'
    popne {r4-r12, pc}
    ldr r0, =0x84000009             @ PSCI SYSTEM_RESET
    smc #0

@ From R0 to R1: counts its own words in R5 and others but 0 in R6.
look:
    ldr r2, [r0], #4
    cmp r2, r4
    addeq r5, r5, #1
    beq 1f
    cmp r2, #0
    addne r6, r6, #1
1:  cmp r0, r1
    blo look
    bx lr

@ From R0 to R1: leaves its own words.
leave:
    str r4, [r0], #4
    cmp r0, r1
    blo leave
    bx lr
    .ltorg
