@ Calls, returns and jumps of T32 code that is interrupted, so that it has a return mirror, at the start of RAM and
@ where Linux has its kernel; and from each of these to the other one, which differs in bit 31 alone. Code says where it
@ is.

    .include "runtime.inc"
    .include "tables.inc"
    .include "clock.inc"

    .equ TIMES, 40                  @ interrupts, before anything is said
    .equ KERNEL, 0xc0000000         @ where all of RAM is once more, as Linux has it
    .equ OTHER, KERNEL - 0x40000000
    .equ PLACES, 12

    .global main
main:
    push {r4-r12, lr}
    bl flat_tables
    ldr r0, =TABLES + (KERNEL >> 18)
    ldr r1, =0x40000000 + FLAT
    mov r2, #4
1:  str r1, [r0], #4
    add r1, r1, #0x100000
    subs r2, r2, #1
    bne 1b
    ldr r0, =TABLES + (GICD >> 18)
    ldr r1, =GICD + 0xc16
    str r1, [r0]
    bl mmu_on
    bl timer_interrupt_on
    ldr r0, =irq_routine
    ldr r1, =on_tick
    str r1, [r0]
    mov r6, #4
2:  tst r6, #1
    ldr r4, =work + 1
    addne r4, r4, #OTHER
    mov r0, #TIMES
    put remaining, r0, r1
    bl soon
    ldr r0, =places
    cpsie i
    blx r4
    cpsid aif
    say "\n"
    show round, r6
    ldr r5, =places
    mov r7, #PLACES
3:  ldr r0, [r5], #4
    ldr r1, =work                   @ how far from there, whatever this image looks like
    sub r0, r0, r1
    show at, r0
    subs r7, r7, #1
    bne 3b
    subs r6, r6, #1
    bne 2b
    pop {r4-r12, pc}

on_tick:
    push {lr}
    ldr r0, =GICC
    ldr r1, [r0, #0xc]
    str r1, [r0, #0x10]
    get r0, remaining
    subs r0, r0, #1
    put remaining, r0, r1
    beq 1f
    bl soon
    pop {pc}
1:  bl timer_off
    pop {pc}

    .ltorg

    .thumb
    .balign 4
@ In: R0 = where to note PLACES addresses, once no interrupt remains.
work:
    push {r4-r7, lr}
    mov r4, r0
    ldr r5, =remaining
1:  bl here
    adr r6, here
    adds r6, #1
    blx r6                          @ calls of two and of four bytes, one behind the other
    blx r6
    bl here
    bl by_table
    ldr r0, [r5]
    cmp r0, #0
    bne 1b
    stmia r4!, {r1}                 @ of by_table
    bl here
    stmia r4!, {r0}
    blx r6
    stmia r4!, {r0}
    eor r6, r6, #0x80000000         @ the other one, and back again
    blx r6
    stmia r4!, {r0}
    eor r6, r6, #0x80000000
    blx r6
    stmia r4!, {r0}
    bl turn                         @ returns to the other one
    mov r0, pc
    stmia r4!, {r0}
    bl here
    stmia r4!, {r0}
    bl by_table
    stmia r4!, {r1}
    bl turn
    mov r0, pc
    stmia r4!, {r0}
    adr r6, in_arm
    blx r6
    stmia r4!, {r0}
    eor r6, r6, #0x80000000
    blx r6
    stmia r4!, {r0}
    bl here
    stmia r4!, {r0}
    pop {r4-r7, pc}

@ R0 = the PC.
here:
    mov r0, pc
    bx lr
turn:
    eor lr, lr, #0x80000000
    bx lr
@ R1 = the PC behind a jump by a table.
by_table:
    push {lr}
    movs r1, #1
    tbb [pc, r1]
    .byte (2f - .) / 2, (3f - . + 1) / 2
2:  udf #0
3:  mov r1, pc
    pop {pc}
    .balign 4
    .ltorg
    .arm
in_arm:
    mov r0, pc
    bx lr

    .section .data
    .balign 4
remaining:
    .word 0
places:
    .space 4 * PLACES
    .section .text
