@ Spins, and counts what it gets done. Parameters: the counter's values, in milliseconds, at which counting begins and
@ ends, and at which the guest switches itself off, for others want it to go on while they count; 1 to use VFP, too.

    .include "runtime.inc"
    .include "clock.inc"
    .fpu neon

    .global main
main:
    push {r4-r12, lr}
    get r7, parameters + 12
    cmp r7, #0
    beq 1f
    mov r0, #0xf00000
    mcr p15, 0, r0, c1, c0, 2
    isb
    mov r0, #0x40000000
    vmsr fpexc, r0
1:  say "up\n"
    get r0, parameters
    bl spin_until
    mov r8, r1
    mov r9, r0
    get r0, parameters + 4
    bl spin_until
    add r9, r9, r0
    say "done"
    show rounds, r0
    sub r1, r1, r8
    show ticks, r1
    say "\n"
    get r0, parameters + 8
    bl spin_until
    add r0, r0, r9
    say "all"
    show rounds, r0
    say "\n"
    pop {r4-r12, pc}

@ Spins until the counter is at R0 milliseconds. R0 = rounds, R1 = the counter.
spin_until:
    ldr r1, =MILLISECOND
    mul r4, r0, r1
    mov r0, #0
    b 3f
1:  ldr r2, =1000
2:  subs r2, r2, #1
    bne 2b
    add r0, r0, #1
    cmp r7, #0
    vmovne s0, r0
3:  now r1, r3
    cmp r1, r4
    blo 1b
    bx lr

    .ltorg
