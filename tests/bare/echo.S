@ Says what it hears, line by line, and sleeps in between.

    .include "runtime.inc"
    .include "clock.inc"

    .equ LINE, SCRATCH

    .global main
main:
    push {r4-r12, lr}
    bl timer_interrupt_on           @ for the interrupt controller; the console is its line 33
    ldr r0, =GICD
    mov r1, #2
    str r1, [r0, #0x104]
    mov r1, #1
    strb r1, [r0, #0x800 + 33]
    ldr r4, =UART
    ldr r0, =0x301
    str r0, [r4, #0x30]
    mov r0, #0x10
    str r0, [r4, #0x38]
    say "up\n"
1:  ldr r5, =LINE
2:  ldr r0, [r4, #0x18]
    tst r0, #0x10
    beq 3f
    wfi
    b 2b
3:  ldrb r0, [r4]
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
