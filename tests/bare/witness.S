@ Sees whether anybody else can change what is its own: memory full of words that tell their place, registers, the clock. It goes on
@ until its clock is at parameter 0, in milliseconds, and says what it has seen, and how often it came around.

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
    get r0, parameters
    ldr r1, =MILLISECOND
    mul r0, r1, r0
    cmp r11, r0
    blo 2b
    say "seen"
    show wrong, r8
    show backwards, r9
    show rounds, r7
    show passes, r12
    say "\n"
    pop {r4-r12, pc}
    .ltorg
