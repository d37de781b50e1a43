@ Code that is new, and code that changes.

    .include "common.inc"
    .text

@ Straight code in blocks of eight instructions, the last of them a branch to the next block, run once. The code is
@ written before the clock starts. Every instruction but the branches counts itself.
    .equ BLOCKS, CODE_BYTES / 32
    bench code-first-run, first_run, events=7, setup=first_run_setup, loop=0, fixed=BLOCKS
first_run_setup:
    ldr r0, =CODE
    ldr r1, =0xe28bb001             @ add r11, r11, #1
    ldr r2, =0xeaffffff             @ b to the next one
    ldr r3, =BLOCKS
1:
    .rept 7
    str r1, [r0], #4
    .endr
    str r2, [r0], #4
    subs r3, r3, #1
    bne 1b
    ldr r1, =0xe12fff1e             @ bx lr
    str r1, [r0]
    ldr r0, =CODE
    ldr r3, =BLOCKS + 2             @ with the return
1:  mcr p15, 0, r0, c7, c11, 1
    add r0, r0, #32
    subs r3, r3, #1
    bne 1b
    dsb
    mov r0, #0
    mcr p15, 0, r0, c7, c5, 0
    mcr p15, 0, r0, c7, c5, 6
    dsb
    isb
    mov r0, #0
    bx lr
first_run:
    ldr lr, =finished
    ldr pc, =CODE
    .ltorg

@ The same code again: it is known now.
    bench code-second-run, first_run, events=7, loop=0, fixed=BLOCKS

@ A function of eight instructions is written to a fresh place, made visible, called once.
    bench code-generation, generation, events=7, fixed=2048
generation:
    ldr r12, =CODE + CODE_BYTES * 2
    ldr r0, =0xe28bb001
    mov r1, r0
    mov r2, r0
    mov r3, r0
    mov r5, r0
    mov r6, r0
    mov r7, r0
    ldr r8, =0xe12fff1e
9:  stm r12, {r0-r3, r5-r8}
    dbic r12
    blx r12
    add r12, r12, #32
    again
    b finished
    .ltorg

@ One instruction of a function is replaced, made visible, and the function called.
    bench self-modification, modification, 2, events=3
modification:
    ldr r12, =CODE + CODE_BYTES * 3
    ldr r0, =0xe28bb001             @ add r11, r11, #1
    ldr r1, =0xe28bb002             @ add r11, r11, #2
    ldr r2, =0xe12fff1e
    str r2, [r12, #4]
9:  str r0, [r12]
    dbic r12
    blx r12
    str r1, [r12]
    dbic r12
    blx r12
    again
    b finished
    .ltorg
