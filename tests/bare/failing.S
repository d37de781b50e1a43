@ Makes Spica fail on its behalf: only where `spica.faults` is on Spica's command line. Parameters: how long to sleep
@ first, in milliseconds; which fault (crates/hypervisor/src/fault.rs). Its registers are full of what nobody else must
@ see.

    .include "runtime.inc"
    .include "clock.inc"
    .fpu neon

    .equ MARK, 0x5ec4e7ff

    .global main
main:
    push {r4-r12, lr}
    bl timer_interrupt_on
    get r0, parameters
    ldr r1, =MILLISECOND
    mul r0, r0, r1
    bl sleep
    mov r0, #0xf00000
    mcr p15, 0, r0, c1, c0, 2
    isb
    mov r0, #0x40000000
    vmsr fpexc, r0
    ldr r0, =MARK
    vdup.32 q0, r0
    vmov q1, q0
    vmov q7, q0
    vmov q8, q0
    vmov q15, q0
    ldr r1, =0x03c00000
    vmsr fpscr, r1
    mcr p15, 0, r0, c13, c0, 2
    mcr p15, 0, r0, c13, c0, 3
    say "up\n"
    ldr r0, =0x8600fa17
    get r1, parameters + 4
    smc #0
    say "answer"
    show r0, r0
    say "\n"
    pop {r4-r12, pc}
    .ltorg
