@ A timer that interrupts user code again and again, with an interrupt handler of Linux's shape: it acknowledges the
@ interrupt, goes to Supervisor mode, sets the timer anew, ends the interrupt and returns. Spica answers all of it, and
@ the next interrupt, without Rust, unless the handler does something else with the timers or the interrupt controller,
@ which some of these do. At each tick all of the user code's registers must be what they were, and the timer be due.
@ What is printed does not depend on when interrupts come.

    .include "runtime.inc"
    .include "tables.inc"
    .include "clock.inc"

    .equ TIMES, 500                 @ interrupts of each kind
    .equ FLAGS, 0xa80b0000          @ of user code: N, C, Q and some of GE
    .equ DEVICE, 0x17               @ small page, device, for the kernel alone, never executed
    .equ USER_SP, 0x5a5a5a50
    .equ USER_LR, 0xa5a5a5a4

    .global main
main:
    push {r4-r12, lr}
    bl flat_tables
    ldr r0, =TABLES + (GICD >> 18)
    ldr r1, =LEVEL2 + 1
    str r1, [r0]
    ldr r0, =LEVEL2
    mov r1, #0
    add r2, r0, #0x400
1:  str r1, [r0], #4
    cmp r0, r2
    blo 1b
    ldr r0, =LEVEL2
    ldr r1, =GICD + DEVICE
    str r1, [r0]
    ldr r1, =GICC + DEVICE
    str r1, [r0, #(GICC - GICD) >> 10]
    bl mmu_on
    bl timer_interrupt_on
    ldr r0, =GICD
    ldr r1, =1 << 30                @ the physical timer's interrupt as well
    str r1, [r0, #0x100]
    mov r4, #0
1:  ldr r0, =COUNT
    cmp r4, r0
    bhs 2f
    bl ticking
    add r4, r4, #1
    b 1b
2:  pop {r4-r12, pc}

@ Interrupts of kind R4.
ticking:
    push {r4-r12, lr}
    mov r0, #0
    put ticks, r0, r1
    put others, r0, r1
    put bad, r0, r1
    put kind, r4, r1
    cps #MODE_SYS
    mov r5, sp
    ldr sp, =USER_SP
    ldr lr, =USER_LR
    cps #MODE_SVC
    vectors_at own_vectors
    bl tick_soon
    cmp r4, #THUMB
    beq 1f
    user loop, FLAGS
    b 2f
1:  user loop_thumb + 1, FLAGS
2:  vectors_at vectors
    cps #MODE_SYS
    mov sp, r5
    cps #MODE_SVC
    get r0, ticks
    get r1, others
    get r2, bad
    say "\n"
    show kind, r4
    show ticks, r0
    show others, r1
    show bad, r2
    pop {r4-r12, pc}

    .balign 4
loop:
    nop
    b loop
leave:
    svc #LEAVE
    .thumb
loop_thumb:
    nop
    b loop_thumb
    .balign 4
leave_thumb:
    svc #LEAVE
    .balign 4
loops_end:
    .arm
    .ltorg

@ An interrupt, as Linux takes it.
take_irq:
    sub lr, lr, #4
    stmia sp, {r0, lr}
    mrs lr, spsr
    str lr, [sp, #8]
    mrs r0, cpsr
    eor r0, r0, #MODE_IRQ ^ MODE_SVC
    msr spsr_cxsf, r0
    mov r0, sp
    adr lr, in_supervisor
    movs pc, lr
in_supervisor:
    sub sp, sp, #72
    stmib sp, {r1-r12}
    ldm r0, {r3, r4, r6}
    str r3, [sp]
    add r0, sp, #52
    stmia r0, {sp, lr}^
    str r4, [sp, #60]
    str r6, [sp, #64]
    mov r5, sp
    bl on_tick
    ldr r0, [sp, #64]
    msr spsr_cxsf, r0
    add r0, sp, #52
    ldmia r0, {sp, lr}^
    nop
    ldr lr, [sp, #60]
    ldmia sp, {r0-r12}
    add sp, sp, #72
    movs pc, lr

@ R5: what user code had in R0 to R12, SP, LR, PC and PSR.
on_tick:
    push {lr}
    get r10, kind
    cmp r10, #ASKING
    bne 6f
    mrrc p15, 3, r3, r4, c14        @ of Rust
6:  ldr r0, =GICC
    ldr r8, [r0, #0xc]
    mov r9, #0                      @ what is wrong
    ldr r1, [r5, #64]
    ldr r2, =FLAGS + MODE_USR
    cmp r10, #THUMB
    orreq r2, r2, #0x20
    cmp r1, r2
    movne r9, #1
    ldr r1, [r5, #60]
    adr r2, loop
    adr r3, loops_end
    cmp r1, r2
    movlo r9, #1
    cmp r1, r3
    movhs r9, #1
    ldr r1, [r5, #52]
    ldr r2, =USER_SP
    cmp r1, r2
    movne r9, #1
    ldr r1, [r5, #56]
    ldr r2, =USER_LR
    cmp r1, r2
    movne r9, #1
    ldr r1, =patterns
    mov r2, #0
1:  ldr r3, [r5, r2]
    ldr r4, [r1, r2]
    cmp r3, r4
    movne r9, #1
    add r2, r2, #4
    cmp r2, #52
    blo 1b
    cmp r8, #30
    beq 4f
    cmp r8, #27
    movne r9, #1
    get r3, due
    now r1, r2
    cmp r1, r3
    movmi r9, #1
    mrc p15, 0, r1, c14, c3, 1
    cmp r1, #5
    movne r9, #1
    get r7, ticks
    add r7, r7, #1
    put ticks, r7, r0
    ldr r0, =TIMES
    cmp r7, r0
    blo 2f
    bl timer_off
    mov r1, #0
    mcr p15, 0, r1, c14, c2, 1
    adr r0, leave
    cmp r10, #THUMB
    addeq r0, r0, #leave_thumb - leave
    str r0, [r5, #60]
    b 3f
2:  ldr r1, =kinds
    ldr r1, [r1, r10, lsl #2]
    blx r1
3:  ldr r0, =GICC
    str r8, [r0, #0x10]
    cmp r9, #0
    beq 5f
    get r0, bad
    add r0, r0, #1
    put bad, r0, r1
5:  pop {pc}
4:  mov r1, #0                      @ the physical timer has ticked
    mcr p15, 0, r1, c14, c2, 1
    get r0, others
    add r0, r0, #1
    cmp r0, #1                      @ how many come in time is chance
    movhi r0, #1
    put others, r0, r1
    b 3b

@ What a handler does with a timer. In: R7 = the ticks so far. Change R0 to R3.
tick_soon:
    push {lr}
    bl soon
    put due, r0, r1
    pop {pc}
with_past:                          @ the line stays high, each fourth time
    tst r7, #3
    bne tick_soon
    mov r0, #0
    b timer_at
stopped_first:
    push {lr}
    bl timer_off
    bl tick_soon
    pop {pc}
with_another:                       @ the physical timer, before this one
    tst r7, #7
    bne tick_soon
    push {lr}
    now r0, r1
    ldr r1, =2 * MILLISECOND
    add r0, r0, r1
    bl timer_at
    put due, r0, r1
    bl random
    ubfx r0, r0, #4, #12
    add r0, r0, #1000
    mrrc p15, 0, r1, r2, c14
    adds r0, r0, r1
    adc r1, r2, #0
    mcrr p15, 2, r0, r1, c14
    mov r1, #1
    mcr p15, 0, r1, c14, c2, 1
    isb
    pop {pc}
masked:                             @ the interrupt controller lets nothing through for a while
    push {lr}
    tst r7, #3
    bne 1f
    ldr r0, =GICC
    mov r1, #0
    str r1, [r0, #4]
    mov r1, #0xff
    str r1, [r0, #4]
1:  bl tick_soon
    pop {pc}
looked_at:                          @ what waits, which is nothing
    push {lr}
    bl tick_soon
    ldr r0, =GICC
    ldr r1, [r0, #0x18]
    pop {pc}
    .ltorg

    .balign 32
    vector_table own_vectors, svc=take_call, irq=take_irq
take_call:                          @ see run_user
    ldr r0, =user_caller
    ldr sp, [r0]
    pop {r4-r12, pc}
    .ltorg

    .section .data
    .balign 4
kinds:
    .word tick_soon, with_past, stopped_first, with_another, masked, looked_at, tick_soon, tick_soon
    .equ COUNT, (. - kinds) / 4
    .equ ASKING, COUNT - 2          @ the handler asks for the timer's value before it acknowledges the interrupt
    .equ THUMB, COUNT - 1
kind:
    .word 0
ticks:
    .word 0
others:
    .word 0
due:
    .word 0
bad:
    .word 0
    .section .text
