@ Code that changes without the maintenance that instruction caches need. With them off, none is due beyond what makes a
@ store visible (B2.2.9, B3.15.5: SCTLR.I = 0): the new code must run. With them on, the old code or the new may run,
@ nothing else, and once it is maintained the new.

    .include "runtime.inc"
    .include "tables.inc"

    .equ PAGE, SCRATCH + 0x8000
    .equ MOV_R0, 0xe3a00000         @ MOV r0, #n
    .equ BX_LR, 0xe12fff1e
    .equ I_ON, 1 << 12
    .equ C_ON, 1 << 2

    .global main
main:
    push {r4-r12, lr}
    say "\nMMU off, caches off"
    ldr r8, =PAGE
    ldr r9, =PAGE
    bl fresh
    bl flat_tables
    ldr r0, =TABLES + (WINDOW >> 18)
    ldr r1, =SCRATCH + FLAT
    str r1, [r0]
    bl mmu_on
    .irp caches, 0, C_ON
    say "\nMMU on, instruction cache off"
    ldr r0, =(SCTLR & ~(I_ON + C_ON)) + \caches
    set_sctlr r0
    bl flush
    ldr r8, =PAGE
    ldr r9, =PAGE
    bl fresh
    @ Written by one address, run by another.
    ldr r8, =WINDOW + 0x9000
    ldr r9, =PAGE + 0x1000
    bl fresh
    ldr r8, =PAGE + 0x2000
    ldr r9, =WINDOW + 0xa000
    bl fresh
    .endr
    say "\nall on"
    ldr r0, =SCTLR
    set_sctlr r0
    bl flush
    bl stale
    bl switched
    pop {r4-r12, pc}

    .ltorg

@ Code at R9, written through R8: what runs is what was stored last.
fresh:
    push {r4-r12, lr}
    mov r6, #0
    mov r5, #0
    ldr r1, =BX_LR
    str r1, [r8, #4]
    str r1, [r8, #12]
    @ A function, changed before each call.
1:  ldr r1, =MOV_R0
    orr r1, r1, r5
    str r1, [r8]
    mcr p15, 0, r8, c7, c11, 1      @ DCCMVAU
    dsb
    isb
    blx r9
    add r6, r0, r6, ror #27
    blx r9
    add r6, r0, r6, ror #27
    add r5, r5, #1
    cmp r5, #80
    blo 1b
    show function, r6
    @ A byte of it, and a neighbour that is no code.
    mov r6, #0
    mov r5, #0
2:  strb r5, [r8]
    str r5, [r8, #64]
    mcr p15, 0, r8, c7, c11, 1
    dsb
    isb
    mov r10, #3
3:  blx r9                          @ linked, before the next change
    add r6, r0, r6, ror #27
    subs r10, r10, #1
    bne 3b
    add r5, r5, #3
    cmp r5, #240
    blo 2b
    show byte, r6
    @ What was no code yet becomes code; what was code becomes data and code again.
    mov r6, #0
    mov r5, #0
4:  add r4, r8, r5, lsl #3
    add r7, r9, r5, lsl #3
    ldr r1, =MOV_R0
    orr r1, r1, r5
    ldr r2, =BX_LR
    stm r4, {r1, r2}
    mcr p15, 0, r4, c7, c11, 1
    dsb
    isb
    blx r7
    add r6, r0, r6, ror #27
    str r6, [r4]
    ldr r0, [r7]
    add r6, r0, r6, ror #27
    str r1, [r4]
    mcr p15, 0, r4, c7, c11, 1
    dsb
    isb
    blx r7
    add r6, r0, r6, ror #27
    add r5, r5, #1
    cmp r5, #100
    blo 4b
    show grown, r6
    @ Code that changes the word behind the next, with nothing but a barrier in between.
    ldr r0, =BX_LR
    str r0, [r8, #32]
    adr r0, changer
    ldm r0, {r0-r4}
    add r7, r8, #16
    stm r7, {r0-r4}
    mcr p15, 0, r7, c7, c11, 1
    dsb
    isb
    mov r6, #0
    mov r5, #0
    add r4, r8, #28                 @ the word that changes
    add r7, r9, #16
5:  ldr r1, =MOV_R0
    orr r1, r1, r5
    blx r7
    add r6, r0, r6, ror #27
    add r5, r5, #1
    cmp r5, #80
    blo 5b
    show own, r6
    pop {r4-r12, pc}
changer:
    str r1, [r4]
    dsb
    isb
    mov r0, #0
    bx lr

    .ltorg

@ R10 counts what is neither old nor new.
    .macro old_or_new
    cmp r0, r5
    sub r1, r5, #1
    cmpne r0, r1
    addne r10, r10, #1
    .endm

@ With the caches on: old or new, then new.
stale:
    push {r4-r12, lr}
    ldr r8, =PAGE + 0x3000
    mov r10, #0
    mov r6, #0
    ldr r1, =BX_LR
    str r1, [r8, #4]
    ldr r1, =MOV_R0
    str r1, [r8]
    publish_all
    mov r5, #1
1:  blx r8
    ldr r1, =MOV_R0
    orr r1, r1, r5
    str r1, [r8]
    blx r8
    old_or_new
    dsb
    isb
    blx r8
    old_or_new
    tst r5, #3
    beq 2f
    mcr p15, 0, r8, c7, c11, 1
    dsb
    mcr p15, 0, r8, c7, c5, 1       @ ICIMVAU
    b 3f
2:  mcr p15, 0, r8, c7, c11, 1
    dsb
    mcr p15, 0, r0, c7, c5, 0       @ ICIALLU
3:  mcr p15, 0, r0, c7, c5, 6
    dsb
    isb
    blx r8
    add r6, r0, r6, ror #27
    add r5, r5, #1
    cmp r5, #200
    blo 1b
    show senseless, r10
    show maintained, r6
    pop {r4-r12, pc}

@ The instruction cache goes off and on: what was changed while it was off is new at once, and stays new behind ICIALLU.
switched:
    push {r4-r12, lr}
    ldr r8, =PAGE + 0x4000
    mov r6, #0
    ldr r1, =BX_LR
    str r1, [r8, #4]
    mov r5, #0
1:  ldr r0, =SCTLR - I_ON
    set_sctlr r0
    ldr r1, =MOV_R0
    orr r1, r1, r5
    str r1, [r8]
    mcr p15, 0, r8, c7, c11, 1
    dsb
    isb
    blx r8
    add r6, r0, r6, ror #27
    mcr p15, 0, r0, c7, c5, 0
    mcr p15, 0, r0, c7, c5, 6
    dsb
    isb
    ldr r0, =SCTLR
    set_sctlr r0
    mov r0, #0
    blx r8
    add r6, r0, r6, ror #27
    add r5, r5, #1
    cmp r5, #60
    blo 1b
    show switched, r6
    pop {r4-r12, pc}
    .ltorg
