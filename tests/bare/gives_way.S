@ A guest that takes the addresses for itself where the stubs are of a kernel that runs in place at 0x40000000: it maps
@ memory in front of them, and soon behind that there, stores to it, loads from it, and executes what it has stored.
@ Each line ends at once: what Spica says meanwhile would end it. Parameter: how often it goes on working then.

    .include "runtime.inc"
    .include "tables.inc"
    .include "clock.inc"

    .equ NEAR, 0x3fa00000           @ six megabytes in front of the code
    .equ MEGABYTES, 4
    .equ BEHIND, 0x40400000         @ RAM that nothing else maps
    .equ TICKS, 100                 @ what Spica looks for now and then, it has looked for

    .global main
main:
    push {r4-r12, lr}
    bl flat_tables
    ldr r0, =TABLES + (GICD >> 18)
    ldr r1, =GICD + 0xc16
    str r1, [r0]
    bl mmu_on
    bl timer_interrupt_on
    ldr r0, =irq_routine
    ldr r1, =on_tick
    str r1, [r0]
    say "\n"
    ldr r4, =work
    bl interrupted
    say " with nothing there\n"

    @ One megabyte, then all that are left.
    ldr r0, =TABLES + (NEAR >> 18)
    ldr r1, =BEHIND + FLAT
    str r1, [r0, #-4]!
    dsb
    isb
    ldr r4, =work
    bl interrupted
    say " with memory in front of it\n"
    ldr r0, =TABLES + (NEAR >> 18)
    ldr r1, =BEHIND + 0x100000 + FLAT
    mov r2, #MEGABYTES
1:  str r1, [r0], #4
    add r1, r1, #0x100000
    subs r2, r2, #1
    bne 1b
    dsb
    isb

    ldr r0, =NEAR
    mov r1, #MEGABYTES << 8
    mov r2, #0
2:  str r2, [r0]                    @ the first word of each page, and the last
    str r2, [r0, #0xffc]
    add r0, r0, #0x1000
    add r2, r2, #3
    subs r1, r1, #1
    bne 2b
    ldr r0, =NEAR
    mov r1, #MEGABYTES << 8
    mov r2, #0
3:  ldr r3, [r0]
    add r2, r3, r2, ror #1
    ldr r3, [r0, #0xffc]
    add r2, r3, r2, ror #1
    add r0, r0, #0x1000
    subs r1, r1, #1
    bne 3b
    show sum, r2
    say " of what was stored there\n"

    ldr r0, =work
    ldr r1, =NEAR + 0x10ff0         @ across the end of a page
    ldr r2, =work_end
4:  ldr r3, [r0], #4
    str r3, [r1], #4
    cmp r0, r2
    blo 4b
    publish_all
    ldr r4, =NEAR + 0x10ff0
    bl interrupted
    ldr r4, =work
    bl interrupted
    say " there, and here\n"
    get r5, parameters
5:  subs r5, r5, #1
    blt 6f
    ldr r4, =work
    bl interrupted
    say " once more\n"
    b 5b
6:  pop {r4-r12, pc}

@ The function at R4, again and again, until it was interrupted often enough.
interrupted:
    push {r4-r12, lr}
    mov r0, #TICKS
    put remaining, r0, r1
    bl soon
    cpsie i
1:  mov r0, r4
    blx r4
    get r1, remaining
    cmp r1, #0
    bne 1b
    cpsid i
    sub r0, r0, r4
    show result, r0
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

@ R0 += 41 by way of what is sensitive; it runs anywhere.
work:
    mrs r1, cpsr
    cpsid i
    and r2, r1, #0x1f
    add r0, r0, r2
    mrc p15, 0, r2, c3, c0, 0       @ DACR: 1
    add r0, r0, r2, lsl #3
    msr cpsr_c, r1
    mrc p15, 0, r2, c13, c0, 3      @ TPIDRURO: 0
    add r0, r0, r2
    add r0, r0, #14
    bx lr
work_end:

    .section .data
    .balign 4
remaining:
    .word 0
    .section .text
