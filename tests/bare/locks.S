@ A counter by exclusives, as locks are, with so much between load and store that the board's other guests have their
@ turns there; in the kernel, whose code is translated, and in user code, which is not. Parameters: how often.

    .include "runtime.inc"
    .include "tables.inc"

    .global main
main:
    push {r4-r12, lr}
    say "up\n"
    bl flat_tables
    bl mmu_on
    ldr r4, =SCRATCH + 0x100
    mov r0, #0
    str r0, [r4]
    get r5, parameters
    bl count
    user count_as_user
    ldr r4, =SCRATCH + 0x100
    ldr r0, [r4]
    say "\ncounted"
    show times, r0
    say "\n"
    pop {r4-r12, pc}

count_as_user:
    ldr r4, =SCRATCH + 0x100
    get r5, parameters
    bl count
    svc #LEAVE

@ R5 times one more at R4. Uses R0 to R3.
count:
1:  ldrex r3, [r4]
    mov r2, #5000
2:  subs r2, r2, #1
    bne 2b
    add r3, r3, #1
    strex r0, r3, [r4]
    cmp r0, #0
    bne 1b
    subs r5, r5, #1
    bne 1b
    bx lr

    .ltorg
