@ Says what it hears, line by line, and sleeps in between.

    .include "runtime.inc"
    .include "clock.inc"
    .include "keys.inc"

    .equ LINE, SCRATCH

    .global main
main:
    push {r4-r12, lr}
    bl keys_on
    ldr r4, =UART
    say "up\n"
1:  ldr r5, =LINE
2:  bl key
    cmp r0, #13
    beq 4f
    strb r0, [r5], #1
    b 2b
4:  say "heard "
    mov r0, #10
    strb r0, [r5], #1
    ldr r6, =LINE
5:  ldrb r0, [r6], #1
    strb r0, [r4]
    cmp r6, r5
    blo 5b
    b 1b

    .ltorg
