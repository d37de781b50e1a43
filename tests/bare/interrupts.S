@ Interrupts in tight loops of every kind: linked blocks that do nothing but lead to each other, calls, returns,
@ indirect branches, masks that open and close, traps, user code. Each must be interrupted often, only where it may be,
@ with the right PSR, and go on as if nothing was. What is printed does not depend on when interrupts come.

    .include "runtime.inc"
    .include "tables.inc"
    .include "clock.inc"

    .equ TIMES, 100                 @ interrupts of each loop
    .equ KERNEL, 0xc0000000         @ where all of RAM is once more, as Linux has it

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
    say "\none to one"
    ldr r4, =loops
    bl all
    say "\nwhere kernels are"
    ldr r4, =loops + KERNEL - 0x40000000
    bl all
    bl timer_off
    pop {r4-r12, pc}

@ All loops, in the order of the table; R4 is its address.
all:
    push {r4-r12, lr}
    ldr r5, =names
    mov r6, #0
1:  ldr r0, =COUNT
    cmp r6, r0
    bhs 9f
    ldr r0, [r4, r6, lsl #2]
    cmp r4, #KERNEL
    addhs r0, r0, #KERNEL - 0x40000000
    mov r1, #0
    put ticks, r1, r2
    put bad, r1, r2
    blx r0
    cpsid aif
    mov r7, r0                      @ what the loop says for itself
    get r0, ticks
    get r1, bad
    say "\n"
    show loop, r6
    show ticks, r0
    show bad, r1
    show says, r7
    add r6, r6, #1
    b 1b
9:  pop {r4-r12, pc}

@ An interrupt: R5 is the frame. Where it came, and in which mode, must be as the loop said.
on_tick:
    push {lr}
    mrs r6, spsr
    ldr r7, [r5, #52]
    ldr r0, =GICC
    ldr r1, [r0, #0xc]
    str r1, [r0, #0x10]
    clrex                           @ as operating systems do
    ldr r4, =expected
    ldm r4, {r0-r3, r8}             @ from, to, not from, not to, PSR
    cmp r7, r0
    blo 1f
    cmp r7, r1
    bhs 1f
    cmp r7, r2
    blo 2f
    cmp r7, r3
    blo 1f
2:  and r6, r6, #0xff
    cmp r6, r8
    beq 3f
1:  get r0, bad
    add r0, r0, #1
    put bad, r0, r1
3:  get r0, ticks
    add r0, r0, #1
    put ticks, r0, r1
    cmp r0, #TIMES
    blo 4f
    bl timer_off
    mov r0, #0                      @ the loop's sign to end
    str r0, [r5, #28]
    get r0, escape
    cmp r0, #0
    strne r0, [r5, #52]
    pop {pc}
4:  bl soon
    pop {pc}


    @ Interrupts may come from label `from` to `to`, in a mode with masks; `escape` is where a loop ends that does not
    @ look at R7. Uses R0 to R2.
    .macro watch from, to, psr, out
    ldr r2, =expected
    adr r0, \from
    adr r1, \to
    stm r2!, {r0, r1}
    mov r0, #0
    mov r1, #0
    stm r2!, {r0, r1}
    .if (\psr) & 15
    mov r0, #\psr + 0x40           @ FIQs are masked
    .else
    mov r0, #\psr
    .endif
    .ifb \out
    mov r1, #0
    .else
    adr r1, \out
    .endif
    stm r2, {r0, r1}
    mov r0, #0
    mov r1, #0
    mov r2, #0
    mov r7, #1
    push {lr}
    bl soon_kept
    pop {lr}
    .endm
    .macro never from, to
    ldr r3, =expected + 8
    adr r0, \from
    adr r1, \to
    stm r3, {r0, r1}
    mov r0, #0
    mov r1, #0
    .endm
soon_kept:
    push {r0-r3, lr}
    bl soon
    pop {r0-r3, pc}

    @ R0 = 0 if R0 to R2 are equal.
    .macro equal
    cmp r0, r1
    cmpeq r1, r2
    mov r0, #0
    movne r0, #1
    .endm

    .include "loops.inc"

@ User code: R0 to R2 are compared by the kernel.
user_arm:
    push {r4-r12, lr}
    watch 1f, 2f, MODE_USR
    adr r0, 1f
    mov r1, #0
    bl run_counting
    pop {r4-r12, pc}
1:  add r0, r0, #1
    add r1, r1, #1
    add r2, r2, #1
    cmp r7, #0
    bne 1b
    svc #LEAVE
2:

user_thumb:
    push {r4-r12, lr}
    watch 1f, 2f, MODE_USR + 0x20
    adr r0, 1f
    mov r1, #0x20
    bl run_counting
    pop {r4-r12, pc}
    .balign 4
1:  .thumb
    cmp r0, r0
    ittt eq                         @ interrupted in the midst of it
    addeq r0, #1
    addeq r1, #1
    addeq r2, #1
    cmp r7, #0
    bne 1b
    svc #LEAVE
    .arm
    .balign 4
2:

user_calling:
    push {r4-r12, lr}
    watch 1f, 2f, MODE_USR
    adr r0, 1f
    mov r1, #0
    bl run_counting
    pop {r4-r12, pc}
1:  add r0, r0, #1
    svc #1
    add r1, r1, #1
    add r2, r2, #1
    cmp r7, #0
    bne 1b
    svc #LEAVE
2:  .ltorg

@ User code at R0 with PSR R1, R0 to R2 zero and R7 one, until its `svc #LEAVE`; R0 as `equal` has it.
run_counting:
    push {r4-r12, lr}
    ldr r3, =user_caller
    str sp, [r3]
    adr r3, user_vectors
    mcr p15, 0, r3, c12, c0, 0
    isb
    orr r1, r1, #MODE_USR
    msr spsr_cxsf, r1
    mov lr, r0
    mov r0, #0
    mov r1, #0
    mov r2, #0
    mov r7, #1
    movs pc, lr
    vector_table user_vectors, svc=user_called, irq=on_irq
user_called:
    mrs r8, spsr
    tst r8, #0x20
    ldrbne r8, [lr, #-2]
    ldrbeq r8, [lr, #-4]
    cmp r8, #LEAVE
    movsne pc, lr
    ldr r8, =vectors
    mcr p15, 0, r8, c12, c0, 0
    isb
    equal
    ldr r3, =user_caller
    ldr sp, [r3]
    pop {r4-r12, pc}
    .ltorg

    @ In pages of its own: a loop across their boundary.
    .balign 4096
    .space 4096 - 16
5:  cpsie i
2:  add r0, r0, #1
    cmp r7, #0
    bne 3f
    b 4f
3:  add r1, r1, #1
    add r2, r2, #1
    b 2b
4:  cpsid i
    add r1, r1, #1                  @ it ends in the midst
    add r2, r2, #1
    equal
    bx lr
across:
    ldr r2, =expected
    adr r0, 5b
    adr r1, 4b
    stm r2!, {r0, r1}
    mov r0, #0
    mov r1, #0
    stm r2!, {r0, r1}
    mov r0, #MODE_SVC + 0x40
    mov r1, #0
    stm r2, {r0, r1}
    mov r2, #0
    mov r0, #0
    mov r7, #1
    push {lr}
    bl soon_kept
    pop {lr}
    b 5b
    .ltorg

    .section .data
    .balign 4
loops:
    .word itself, pair, counting, calls, pops, indirect, loaded, arms, windows, windows_by_msr
    .word in_system, in_abort, in_undefined, exclusive, supervisor_calls, traps, devices, sleeping, rewriting
    .word user_arm, user_thumb, user_calling, across
    .equ COUNT, (. - loops) / 4
names:
expected:
    .word 0, 0, 0, 0, 0
escape:
    .word 0
ticks:
    .word 0
bad:
    .word 0
    .section .text
