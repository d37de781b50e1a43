@ What operating systems do all the time, with all the maintenance that is due and no more: two address spaces whose
@ pages change, are taken away and come on demand, user code that is rewritten, system calls, undefined instructions.
@ User code adds up what it finds, and the kernel knows what that must be.

    .include "runtime.inc"
    .include "tables.inc"

    .equ FRAMES, SCRATCH + 0x10000  @ pages of memory, each with its number in its first word
    .equ FRAME_COUNT, 64
    .equ PAGES, 16                  @ from WINDOW on
    .equ PAGE, 0x83e                @ small, write-back, for all, not global
    .equ CODE, SCRATCH + 0x80000    @ a function of user code's
    .equ FOUND, SCRATCH + 0x81000   @ what user code found
    .equ MOV_R0, 0xe3a00000         @ MOV r0, #n
    .equ BX_LR, 0xe12fff1e
    .equ ROUNDS, 60

    .global main
main:
    push {r4-r12, lr}
    bl flat_tables
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
    ldr r0, =FRAMES
    mov r1, #0
2:  str r1, [r0]
    add r0, r0, #0x1000
    add r1, r1, #1
    cmp r1, #FRAME_COUNT
    blo 2b
    bl mmu_on
    vectors_at upkeep_vectors
    mov r5, #0
    mov r9, #0                      @ sums that were wrong
3:  bl enter_space
    and r4, r5, #1
    ldr r8, =LEVEL2
    add r8, r8, r4, lsl #10         @ the space's second-level table
    bl change_pages
    bl change_code
    user work
    bl sum
    ldr r1, =FOUND
    ldr r1, [r1]
    cmp r0, r1
    addne r9, r9, #1
    add r5, r5, #1
    cmp r5, #ROUNDS
    blo 3b
    bl leave_spaces
    vectors_at vectors
    say "\nupkeep"
    show wrong, r9
    pop {r4-r12, pc}

@ In round R5, every fourth page of the space of table R8 is another one (all of them, the first time), and one is taken
@ away. R4 = the space, ASID R4 + 1. Uses R0 to R2, R6, R10.
change_pages:
    mov r10, lr
    mov r6, #0
1:  add r0, r5, r6
    cmp r5, #2
    tsths r0, #3
    bne 2f
    add r0, r0, r0, lsl #2
    and r0, r0, #FRAME_COUNT - 1
    ldr r1, =FRAMES + PAGE
    add r1, r1, r0, lsl #12
    bl change_page
2:  add r6, r6, #1
    cmp r6, #PAGES
    blo 1b
    and r6, r5, #PAGES - 1
    mov r1, #0
    mov lr, r10
@ Page R6 gets descriptor R1. Uses R0 to R2.
change_page:
    add r0, r8, r6, lsl #2
    str r1, [r0]
    mcr p15, 0, r0, c7, c11, 1      @ DCCMVAU
    dsb
    ldr r0, =WINDOW + 1
    add r0, r0, r4
    add r0, r0, r6, lsl #12
    mcr p15, 0, r0, c8, c7, 1       @ TLBIMVA
    dsb
    isb
    bx lr

@ The function gives R5 from now on. Uses R0 to R2.
change_code:
    ldr r0, =CODE
    ldr r1, =MOV_R0
    orr r1, r1, r5
    ldr r2, =BX_LR
    stm r0, {r1, r2}
    mcr p15, 0, r0, c7, c11, 1      @ DCCMVAU
    dsb
    mcr p15, 0, r0, c7, c5, 1       @ ICIMVAU
    mcr p15, 0, r0, c7, c5, 7       @ BPIMVA
    dsb
    isb
    bx lr

@ R0 = what user code finds in the space of table R8: the numbers of its frames, and R5. Uses R1 to R3.
sum:
    mov r0, r5
    mov r1, #0
1:  ldr r2, [r8, r1, lsl #2]
    bfc r2, #0, #12
    ldr r2, [r2]
    add r0, r0, r2
    add r1, r1, #1
    cmp r1, #PAGES
    blo 1b
    bx lr

work:
    ldr r4, =WINDOW
    mov r5, #PAGES
    mov r6, #0
1:  ldr r0, [r4]
    add r6, r6, r0
    str r0, [r4, #8]
    svc #1
    add r4, r4, #0x1000
    subs r5, r5, #1
    bne 1b
    .word 0xe7f000f0                @ UDF
    ldr r1, =CODE
    blx r1
    add r6, r6, r0
    ldr r1, =FOUND
    str r6, [r1]
    svc #LEAVE

    .balign 32
upkeep_vectors:
    b .
    b skip
    b system_call
    b .
    b absent
    b .
    b .
    b .

skip:
    movs pc, lr

@ The kernel uses the caller's pages as well.
system_call:
    push {r0, r1}
    ldrb r0, [lr, #-4]
    cmp r0, #LEAVE
    beq 1f
    ldr r0, =WINDOW + 0x3000
    ldr r1, [r0, #12]
    add r1, r1, #1
    str r1, [r0, #12]
    pop {r0, r1}
    movs pc, lr
1:  ldr r0, =user_caller
    ldr sp, [r0]
    pop {r4-r12, pc}

@ A page that was taken away gets the frame of its number, in the space that CONTEXTIDR tells.
absent:
    push {r0-r3}
    mrc p15, 0, r0, c6, c0, 0       @ DFAR
    mrc p15, 0, r1, c13, c0, 1
    sub r1, r1, #1
    ldr r2, =LEVEL2
    add r2, r2, r1, lsl #10
    ubfx r0, r0, #12, #8
    add r2, r2, r0, lsl #2
    ldr r3, =FRAMES + PAGE
    add r3, r3, r0, lsl #12
    str r3, [r2]
    mcr p15, 0, r2, c7, c11, 1      @ DCCMVAU
    dsb
    isb
    pop {r0-r3}
    subs pc, lr, #8

    .ltorg
