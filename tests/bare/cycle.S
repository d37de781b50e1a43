@ A little of everything that takes something of Spica: translated code, page tables in several address spaces, VFP, the
@ timer, the console. Then it is done. It takes 16 milliseconds, most of them asleep.

    .include "runtime.inc"
    .include "tables.inc"
    .include "clock.inc"
    .fpu neon

    .equ PAGES, 64

    .global main
main:
    push {r4-r12, lr}
    say "up\n"
    mov r0, #0xf00000
    mcr p15, 0, r0, c1, c0, 2
    isb
    mov r0, #0x40000000
    vmsr fpexc, r0
    vmov s0, r0
    bl flat_tables
    ldr r0, =TABLES + (WINDOW >> 18)
    ldr r1, =LEVEL2 + 1
    str r1, [r0]
    ldr r0, =LEVEL2
    ldr r1, =SCRATCH + 0x832        @ small page, for all, nG
    mov r2, #0
1:  cmp r2, #PAGES
    strlo r1, [r0], #4
    strhs r3, [r0], #4
    mov r3, #0
    add r1, r1, #0x1000
    add r2, r2, #1
    cmp r2, #256
    blo 1b
    bl mmu_on
    ldr r0, =TABLES + (GICD >> 18)
    ldr r1, =GICD + 0xc16           @ device, never executed
    str r1, [r0]
    bl timer_interrupt_on
    mov r4, #1
2:  set_contextidr r4
    ldr r1, =WINDOW
    mov r2, #PAGES
3:  str r4, [r1]
    add r1, r1, #0x1000
    subs r2, r2, #1
    bne 3b
    ldr r0, =MILLISECOND * 2
    bl sleep
    add r4, r4, #1
    cmp r4, #8
    bls 2b
    vectors_at vectors
    ldr r0, =0x00c50078             @ MMU off, as the way out wants it
    set_sctlr r0
    say "done\n"
    pop {r4-r12, pc}

    .ltorg
