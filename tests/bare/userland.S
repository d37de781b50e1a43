@ For breakpoints in user code: two address spaces, with a page of code that both have, in A32 and T32, one at which
@ each has its own, and one that comes on demand, from one of two places. A round runs the user code of one space, whose
@ sum the kernel knows, and looks at all the code. It goes round until `go_on` is 0.

    .include "runtime.inc"
    .include "tables.inc"
    .include "clock.inc"

    .equ FRAMES, SCRATCH + 0x10000
    .equ FOUND, SCRATCH + 0x80000   @ what user code found
    .equ PAGE, 0x83e                @ small, write-back, for all, not global
    .equ SHARED, WINDOW             @ the test knows these
    .equ PROGRAM, WINDOW + 0x1000
    .equ LATE, WINDOW + 0x2000
    .equ CODE_BYTES, 0x60
    .equ SHARED_T, 0x40             @ in SHARED, T32

    .global main, in_space, work, work_ends, leave, go_on, rounds, shared
main:
    push {r4-r12, lr}
    bl flat_tables
    ldr r0, =TABLES + (GICD >> 18)
    ldr r1, =GICD + 0xc16           @ device, never executed
    str r1, [r0]
    ldr r0, =TABLES + (WINDOW >> 18)
    ldr r1, =LEVEL2 + 1
    str r1, [r0]
    ldr r0, =LEVEL2
    mov r1, #0
    add r2, r0, #0x800
1:  str r1, [r0], #4
    cmp r0, r2
    blo 1b
    bl other_table
    ldr r6, =codes
    ldr r7, =FRAMES
2:  ldr r0, [r6], #4
    cmp r0, #0
    beq 4f
    mov r1, #0
3:  ldr r2, [r0, r1]
    str r2, [r7, r1]
    add r1, r1, #4
    cmp r1, #CODE_BYTES
    blo 3b
    add r7, r7, #0x1000
    b 2b
4:  ldr r0, =LEVEL2
    ldr r1, =FRAMES + PAGE
    str r1, [r0]                    @ SHARED
    str r1, [r0, #0x400]
    add r1, r1, #0x1000
    str r1, [r0, #4]                @ PROGRAM
    add r1, r1, #0x1000
    str r1, [r0, #0x404]
    bl mmu_on
    publish_all
    bl timer_interrupt_on
    vectors_at own_vectors
    mov r5, #0
    mov r9, #0                      @ what was wrong
go_round:
    bl enter_space
    ldr r0, =programs
    and r4, r5, #1
    ldr r0, [r0, r4, lsl #2]
    put program, r0, r1
    bl take_late
in_space:
    user work
    get r0, FOUND
    ldr r1, =sums
    ldr r1, [r1, r4, lsl #2]
    cmp r0, r1
    addne r9, r9, #1
    ldr r0, =SHARED
    ldr r1, =shared
    bl compare
    ldr r6, =codes
    ldr r7, =FRAMES
1:  ldr r1, [r6], #4
    cmp r1, #0
    beq 2f
    mov r0, r7
    bl compare
    add r7, r7, #0x1000
    b 1b
2:  ldr r0, =FRAMES + 0x800         @ the page is written, its code is not
    tst r5, #4
    strne r5, [r0]
    ldr r0, =MILLISECOND
    bl sleep
    add r5, r5, #1
    put rounds, r5, r0
    get r0, go_on
    cmp r0, #0
    bne go_round
    bl leave_spaces
    vectors_at vectors
    ldr r0, =0x00c50078             @ MMU off, as the way out wants it
    set_sctlr r0
    show rounds, r5
    show wrong, r9
    pop {r4-r12, pc}

@ R0, R1: code, and what it is to be. If it is not, R9 is counted up. Changes R2, R3, R12.
compare:
    mov r12, #0
1:  ldr r2, [r0, r12]
    ldr r3, [r1, r12]
    cmp r2, r3
    addne r9, r9, #1
    add r12, r12, #4
    cmp r12, #CODE_BYTES
    blo 1b
    bx lr

@ In the space R4, LATE is not there any more, and will be in the place that round R5 has it in. Changes R0 to R2.
take_late:
    ldr r0, =LEVEL2 + 8
    add r0, r0, r4, lsl #10
    put late_entry, r0, r1
    mov r1, #0
    str r1, [r0]
    ldr r0, =LATE + 1
    add r0, r0, r4
    dsb
    forget r0
    ldr r1, =FRAMES + 0x3000 + PAGE @ 3 or 4, or 5
    tst r5, #2
    addne r1, r1, #0x1000
    cmp r4, #0
    ldrne r1, =FRAMES + 0x5000 + PAGE
    put late_page, r1, r0
    bx lr

    .balign 32
own_vectors:
    b .
    b .
    b leave
    b page_in
    b .
    b .
    b .
    b .

@ The end of user code: see run_user.
leave:
    ldr r0, =user_caller
    ldr sp, [r0]
    pop {r4-r12, pc}

page_in:
    sub lr, lr, #4
    push {r0-r2, lr}
    mrc p15, 0, r0, c6, c0, 2
    lsr r0, r0, #12
    lsl r0, r0, #12
    ldr r1, =LATE
    cmp r0, r1
1:  bne 1b
    get r0, late_entry
    get r1, late_page
    str r1, [r0]
    dsb
    isb
    ldm sp!, {r0-r2, pc}^

    .ltorg

@ User code.
work:
    mov r0, #0
    ldr r4, =SHARED
    blx r4
    ldr r4, =SHARED + SHARED_T + 1
    blx r4
    ldr r4, =program
    ldr r4, [r4]
    blx r4
    ldr r4, =LATE
    blx r4
    ldr r4, =FOUND
    str r0, [r4]
work_ends:
    svc #LEAVE

    .ltorg

    .balign 64
shared:
    add r0, r0, #1
    add r0, r0, #2
    ldr r1, 1f
    mul r2, r1, r1
    b 2f
    udf #1
2:  add r0, r0, r1
    bx lr
1:  .word 5

    .balign 64
    .thumb
shared_t:
    cmp r0, #8
    ite eq
    addeq r0, #1
    addne r0, #2
    ldr.w r1, 1f
    adds r0, r0, r1
    cbz r1, 2f
    bx lr
2:  udf #1
    .balign 4
1:  .word 7

    .balign 64
    .arm
program_a:
    add r0, r0, #3
    add r0, r0, #4
    bx lr

    .balign 64
    .thumb
program_b:
    adds r0, #5
    movw r1, #0x1234                @ half of it is where the other program has an instruction
    adds r0, r0, r1
    bx lr

    .balign 64
    .arm
late_a:
    add r0, r0, #0x10
    add r0, r0, #0x20
    bx lr

    .balign 64
late_b:
    add r0, r0, #0x40
    sub r0, r0, #1
    bx lr
    .space CODE_BYTES

    .balign 4
codes:
    .word shared, program_a, program_b, late_a, late_a, late_b, 0
programs:
    .word PROGRAM, PROGRAM + 1
sums:
    .word 8 + 8 + 7 + 0x30, 8 + 8 + 5 + 0x1234 + 0x3f

    .section .data
    .balign 4
program:
    .word 0
late_entry:
    .word 0
late_page:
    .word 0
rounds:
    .word 0
go_on:
    .word 1
