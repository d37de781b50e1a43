@ Exclusive accesses: what a store gives, and what memory holds then; in the kernel, whose code is translated, and in
@ user code, which is not. Only what the architecture says for sure is printed (A3.4): nothing of a plain store between
@ the two.

    .include "runtime.inc"
    .include "tables.inc"

    .global main
main:
    push {r4-r12, lr}
    say "\nMMU off"
    bl all
    bl flat_tables
    bl mmu_on
    say "\nMMU on"
    bl all
    say "\nuser, A32"
    user arm_user
    say "\nuser, T32"
    user thumb_user + 1
    say "\ncounting"
    bl counting
    pop {r4-r12, pc}

    @ Address R4, value R5, first word of memory R6.
    .macro start
    ldr r4, =SCRATCH + 0x100
    ldr r5, =0x5a5a1234
    ldr r6, =0x01234567
    str r6, [r4]
    str r6, [r4, #4]
    clrex
    .endm
    .macro result name
    ldr r1, [r4]
    ldr r2, [r4, #4]
    show \name, r0
    show ., r1
    show ., r2
    .endm

    .macro cases
    start
    ldrex r3, [r4]
    strex r0, r5, [r4]
    result word
    show loaded, r3
    @ Once only.
    strex r0, r6, [r4]
    result again
    start
    strex r0, r5, [r4]              @ without a load
    result alone
    ldrex r3, [r4]
    clrex
    strex r0, r5, [r4]
    result cleared
    start
    ldrexb r3, [r4]
    strexb r0, r5, [r4]
    result byte
    start
    ldrexh r3, [r4]
    strexh r0, r5, [r4]
    result half
    start
    mov r7, r6
    mov r2, r5
    mov r3, r6
    ldrexd r2, r3, [r4]
    mov r2, r5
    mov r3, r4
    strexd r0, r2, r3, [r4]
    result double
    @ With an offset of its own, and others in between: loads, arithmetic, flags.
    start
    ldrex r3, [r4]
    ldr r1, [r4, #4]
    adds r1, r1, r3
    eor r1, r1, r5
    strex r0, r1, [r4]
    result between
    .endm

    .macro conditions
    start
    cmp r4, r4
    ldrexne r3, [r4]
    strexeq r0, r5, [r4]
    result ne
    cmp r4, r4
    ldrexeq r3, [r4]
    strexne r0, r5, [r4]
    strexeq r0, r6, [r4]
    result eq
    clrex
    .endm

all:
    push {r4-r12, lr}
    cases
    conditions
    @ An exception in between, whose handler clears the monitor as operating systems do.
    vectors_at clearing_vectors
    start
    ldrex r3, [r4]
    svc #1
    strex r0, r5, [r4]
    result exception
    start
    ldrex r3, [r4]
    .word 0xe7f000f0                @ UDF
    strex r0, r5, [r4]
    result exception
    vectors_at vectors
    @ What faults or is misaligned, with its registers.
    ldr r4, =ABSENT
    ldr r3, =0x33333333
    ldrex r3, [r4]
    show kept, r3
    ldr r4, =SCRATCH + 0x102
    ldrex r3, [r4]
    ldrexh r3, [r4]
    show half, r3
    strex r0, r3, [r4]
    ldrexd r2, r3, [r4]
    ldr r4, =SCRATCH + 0x104
    ldrexd r2, r3, [r4]             @ of two words: eight bytes
    ldr r4, =SCRATCH + 0x101
    ldrexh r3, [r4]
    ldrexb r3, [r4]
    show byte, r3
    pop {r4-r12, pc}
    .ltorg

arm_user:
    cases
    conditions
    svc #LEAVE
    .ltorg

    .thumb
thumb_user:
    ldr r4, =SCRATCH + 0x100
    ldr r5, =0x5a5a1234
    ldrex r3, [r4]
    strex r0, r5, [r4]
    svc #1                          @ the sum of registers tells
    strex r0, r3, [r4]
    svc #2
    ldrexd r2, r3, [r4]
    strexd r0, r5, r5, [r4]
    ldr r1, [r4, #4]
    svc #3
    ldrexb r3, [r4]
    strexb r0, r3, [r4]
    ldrexh r3, [r4]
    strexh r1, r3, [r4]
    clrex
    strexh r2, r3, [r4]
    svc #4
    svc #LEAVE
    .ltorg
    .arm
    .balign 4

@ A counter by exclusives, as locks are: code inserted between the two must not make this go on for ever (blocks,
@ spilled registers, calls).
counting:
    push {r4-r12, lr}
    ldr r4, =SCRATCH + 0x100
    mov r6, #0
    str r6, [r4]
    mov r5, #0x4000
1:  ldrex r3, [r4]
    add r3, r3, #1
    b 2f
    .ltorg
2:  cmp r3, #0
    beq 3f
    strex r0, r3, [r4]
3:  cmp r0, #0
    bne 1b
    subs r5, r5, #1
    bne 1b
    ldr r3, [r4]
    show counted, r3
    @ With the program counter as an operand, which costs the translator a register.
    mov r5, #0x1000
4:  ldrex r3, [r4]
    add r3, r3, pc
    sub r3, r3, pc
    add r3, r3, #5                  @ PC was 4 less at the first
    strex r0, r3, [r4]
    cmp r0, #0
    bne 4b
    subs r5, r5, #1
    bne 4b
    ldr r3, [r4]
    show counted, r3
    pop {r4-r12, pc}

    .balign 32
clearing_vectors:
    b .
    b cleared
    b cleared
    b .
    b .
    b .
    b .
    b .
cleared:
    clrex
    movs pc, lr
    .ltorg
