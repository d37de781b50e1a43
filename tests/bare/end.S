@ Comes to its end, after a while. Parameters: how long to sleep first, in milliseconds; how: 0 off, 1 reset, 2 a crash,
@ 3 never.

    .include "runtime.inc"
    .include "clock.inc"

    .global main
main:
    push {r4-r12, lr}
    say "up\n"
    bl timer_interrupt_on
    get r0, parameters
    ldr r1, =MILLISECOND
    mul r0, r0, r1
    cmp r0, #0
    blne sleep
    get r0, parameters + 4
    cmp r0, #1
    beq 1f
    cmp r0, #2
    beq 2f
    cmp r0, #3
    beq 3f
    pop {r4-r12, pc}
1:  ldr r0, =0x84000009             @ PSCI SYSTEM_RESET
    smc #0
2:  vectors_at ABSENT
    udf #0
3:  wfi
    b 3b

    .ltorg
