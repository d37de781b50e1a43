@ Sees whether anybody else can change what is its own: memory full of words that tell their place, registers, the
@ clock. It goes on for ever; each time that its clock has advanced by parameter 0, in milliseconds, it says what it has
@ seen so far, and how often it came around since it last said so.

    .include "runtime.inc"
    .include "clock.inc"

    .equ MINE, 0x40300000           @ to the end of its RAM
    .equ END, 0x41000000
    .equ SLICE, 0x8000              @ bytes that are looked at in one round

    .global main
main:
    push {r4-r12, lr}
    ldr r4, =MINE
    ldr r5, =END
    ldr r6, =0x9e3779b9
1:  mul r0, r4, r6
    str r0, [r4], #4
    cmp r4, r5
    blo 1b
    say "up\n"
    mov r7, #0                      @ rounds
    mov r8, #0                      @ words that were wrong
    mov r9, #0                      @ times that the clock went back
    now r10, r0
    mov r12, #0                     @ whole passes over memory
    get r0, parameters
    ldr r1, =MILLISECOND
    mul r0, r1, r0
    put period, r0, r1
    add r0, r0, r10
    put next, r0, r1
    ldr r4, =MINE
2:  add r5, r4, #SLICE
3:  ldr r0, [r4], #4
    sub r1, r4, #4
    mul r1, r1, r6
    cmp r0, r1
    addne r8, r8, #1
    cmp r4, r5
    blo 3b
    ldr r5, =END
    cmp r4, r5
    ldrhs r4, =MINE
    addhs r12, r12, #1
    add r7, r7, #1
    now r11, r0
    subs r0, r11, r10
    addmi r9, r9, #1
    mov r10, r11
    get r0, next
    subs r1, r11, r0
    bmi 2b
    get r1, period
    add r0, r0, r1
    put next, r0, r1
    say "seen"
    show wrong, r8
    show backwards, r9
    show rounds, r7
    show passes, r12
    say "\n"
    mov r7, #0
    b 2b
    .ltorg

    .section .data
    .balign 4
period:
    .word 0
next:
    .word 0
    .section .text
