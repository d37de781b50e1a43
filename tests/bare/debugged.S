@ For a debugger: functions to stop at, before and behind the MMU's start, in both states, code that is written when it
@ runs, and an exception. It goes round until `go_on` is 0.

    .include "runtime.inc"
    .include "tables.inc"
    .include "clock.inc"

    .equ LATE, SCRATCH + 0x8000

    .global main, work, late_source, rounds, go_on, longest, handler, go_round, call
    .global thumb_work, thumb_in_it, thumb_end
main:
    push {r4-r12, lr}
    say "up\n"
    bl flat_tables
    bl mmu_on
    ldr r0, =TABLES + (GICD >> 18)
    ldr r1, =GICD + 0xc16           @ device, never executed
    str r1, [r0]
    bl timer_interrupt_on
    vectors_at own_vectors
    ldr r0, =late_source
    ldr r1, =LATE
    ldm r0, {r2, r3}
    stm r1, {r2, r3}
    publish_all
    now r4, r5
go_round:
    ldr r0, =rounds
    bl work
    blx thumb_work
    ldr r3, =LATE
    blx r3
call:
    svc #0x42
    ldr r0, =MILLISECOND
    bl sleep
    now r0, r1                      @ how long this round took, if no other took as long
    sub r1, r0, r4
    mov r4, r0
    get r0, longest
    cmp r0, r1
    bhs 1f
    put longest, r1, r0
1:
    get r0, go_on
    cmp r0, #0
    bne go_round
    vectors_at vectors
    ldr r0, =0x00c50078             @ MMU off, as the way out wants it
    set_sctlr r0
    get r0, rounds
    show rounds, r0
    pop {r4-r12, pc}

@ R0: the address of a word that is counted up. R0 = the word.
work:
    push {r4, lr}
    mov r4, r0
    ldr r0, [r4]
    add r0, r0, #1
    str r0, [r4]
    pop {r4, pc}

@ T32: R0 = 7, by an IT block.
    .thumb
    .thumb_func
thumb_work:
    movs r0, #3
    cmp r0, #3
    itte eq
    addeq.w r0, r0, #5
thumb_in_it:
    subeq r0, #1
    movne r0, #0
thumb_end:
    bx lr
    .balign 4
    .arm

late_source:
    mov r0, #0x55
    bx lr

    .balign 32
own_vectors:
    b .
    b .
    b handler
    b .
    b .
    b .
    b .
    b .
handler:
    movs pc, lr

    .ltorg

    .section .data
    .balign 4
rounds:
    .word 0
go_on:
    .word 1
longest:
    .word 0
