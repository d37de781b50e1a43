@ Copies an instruction that means something else in User mode from its text, before it is executed there, and executes
@ the copy at each key x; any other key is the end. In place, what it copies stands for the instruction
@ (docs/in-place.md).

    .include "runtime.inc"
    .include "tables.inc"
    .include "clock.inc"
    .include "keys.inc"

    .equ COPY, SCRATCH + 0x8000

    .global main
main:
    push {r4-r12, lr}
    bl flat_tables
    ldr r0, =TABLES + (GICD >> 18)
    ldr r1, =GICD + 0xc16           @ device, never executed
    str r1, [r0]
    bl mmu_on
    bl keys_on
    vectors_at own_vectors
    ldr r0, =text
    blx r0                          @ the page is executed from here on
    ldr r0, =original
    ldr r1, =COPY
    ldm r0, {r2, r3}
    stm r1, {r2, r3}
    publish_all
    lsr r4, r2, #24
    say "up"
    show word, r4
    say "\n"
1:  bl key
    cmp r0, #'x'
    bne 3f
    ldr r5, =2f
    ldr r0, =COPY
    blx r0
2:  mrs r1, cpsr
    eor r6, r6, r1
    say "copy"
    show wrong, r6
    say "\n"
    b 1b
3:  vectors_at vectors
    ldr r0, =0x00c50078             @ MMU off, as the way out wants it
    set_sctlr r0
    pop {r4-r12, pc}

    .balign 32
own_vectors:
    b .
    b .
    b system_call
    b .
    b .
    b .
    b .
    b .
@ It was taken for a system call.
system_call:
    mvn r6, #0
    movs pc, r5

    .ltorg

    @ A page of nothing but code.
    .balign 4096
text:
    .rept 8
    add r3, r3, #1
    .endr
    bx lr

@ R6 = CPSR.
original:
    mrs r6, cpsr
    bx lr
    .rept 8
    add r3, r3, #1
    .endr
    .balign 4096
