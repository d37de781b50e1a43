@ Waits for ticks of its timer, each at its time, and looks at how late it hears of them. Parameters: ticks of the
@ counter between two; how many; what is done meanwhile: 0 WFI, 1 spinning; and at the end: 0 off, 1 WFI for ever.
@
@ Each tick sets the time of the next from its own, so that those that are overdue come one after the other. One that
@ came twice would be early. One that was lost would be the last, or late: once interrupts are not masked, none that is
@ due is left waiting.

    .include "runtime.inc"
    .include "clock.inc"

    .equ CLASSES, 16
    .equ SLACK, 1250                @ ticks of the counter, 20 µs: how much the host's timer may be behind it
@ Before the ticks. To start takes Spica some milliseconds of this guest's turns. Until others have run for as long,
@ they go first, and the first tick would tell of that.
    .equ FIRST, 20 * MILLISECOND

    .global main
main:
    push {r4-r12, lr}
    say "up\n"
    ldr r0, =tick
    put irq_routine, r0, r1
    bl timer_interrupt_on
    ldr r0, =FIRST
    bl sleep
    now r0, r1
    put last, r0, r1
    put started, r0, r1
    get r1, parameters
    add r0, r0, r1
    put due, r0, r1
    bl timer_at
1:  get r0, parameters + 8
    cmp r0, #0
    bne 2f
    wfi
2:  now r4, r1
    mov r0, r4
    bl look_at_clock
    get r5, due
    cpsie i
    nop
    cpsid i
    sub r0, r4, r5
    get r1, before
    cmp r0, #0
    addlt r1, r1, #1
    put before, r1, r2
    ldr r1, =SLACK
    cmp r0, r1
    blt 5f
    get r0, due
    cmp r0, r5
    get r0, waiting
    addeq r0, r0, #1
    put waiting, r0, r1
5:  get r0, ticks
    get r1, parameters + 4
    cmp r0, r1
    blo 1b
    bl timer_off
    say "slept"
    get r0, last_tick
    get r1, started
    sub r0, r0, r1
    show elapsed, r0
    get r0, waiting
    show waiting, r0
    get r0, ticks
    show ticks, r0
    get r0, backwards
    show backwards, r0
    get r0, early
    show early, r0
    get r0, before
    show before, r0
    get r0, worst
    show worst, r0
    get r0, total
    show total, r0
    say " late"
    mov r5, #0
3:  ldr r1, =late
    ldr r0, [r1, r5, lsl #2]
    bl print_named
    .asciz " "
    .balign 4
    add r5, r5, #1
    cmp r5, #CLASSES
    blo 3b
    say "\n"
    get r0, parameters + 12
    cmp r0, #0
    popeq {r4-r12, pc}
4:  wfi
    b 4b

@ The counter is at R0: it must not go backwards.
look_at_clock:
    get r1, last
    cmp r0, r1
    get r1, backwards
    addlo r1, r1, #1
    put backwards, r1, r2
    put last, r0, r1
    bx lr

@ The interrupt. Class n of `late` counts ticks that came less than 2^(n+1) microseconds late, and not before.
tick:
    push {r4, lr}
    ldr r0, =GICC
    ldr r4, [r0, #0xc]
    now r0, r1
    put last_tick, r0, r1
    bl look_at_clock
    get r2, due
    subs r0, r0, r2
    get r1, early
    addmi r1, r1, #1
    put early, r1, r2
    movmi r0, #0
    get r1, worst
    cmp r0, r1
    movhi r1, r0
    put worst, r1, r2
    get r1, total
    add r1, r1, r0
    put total, r1, r2
    mov r1, #0
    ldr r2, =125                    @ two microseconds
1:  cmp r0, r2
    blo 2f
    lsl r2, r2, #1
    add r1, r1, #1
    cmp r1, #CLASSES - 1
    blo 1b
2:  ldr r2, =late
    ldr r0, [r2, r1, lsl #2]
    add r0, r0, #1
    str r0, [r2, r1, lsl #2]
    get r0, ticks
    add r0, r0, #1
    put ticks, r0, r1
    get r0, due
    get r1, parameters
    add r0, r0, r1
    put due, r0, r1
    @ Another one may be overdue when the last has come.
    get r1, ticks
    get r2, parameters + 4
    cmp r1, r2
    blo 3f
    bl timer_off
    b 4f
3:  bl timer_at
4:  ldr r0, =GICC
    str r4, [r0, #0x10]
    pop {r4, pc}

    .ltorg

    .section .data
    .balign 4
started:
    .word 0
due:
    .word 0
last:
    .word 0
last_tick:
    .word 0
waiting:
    .word 0
ticks:
    .word 0
backwards:
    .word 0
early:
    .word 0
before:                             @ it went on before it was due; who spins does
    .word 0
worst:
    .word 0
total:
    .word 0
late:
    .fill CLASSES, 4, 0
    .section .text
