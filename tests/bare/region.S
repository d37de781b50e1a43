@ Translation at the addresses where Spica itself lives. What a guest maps there is reached by emulation: with the same
@ rights, the same faults and the same memory as anywhere else. Unprivileged loads and stores above all: the quick check
@ of those looks into the shadow tables, and at these addresses shadow tables hold Spica's own entries.

    .include "runtime.inc"
    .include "tables.inc"
    .include "probe.inc"

    .global main
main:
    push {r4-r12, lr}
    vectors_at probe_vectors
    bl fill_section
    bl flat_tables
    bl mmu_on
    ldr r9, =places
1:  ldr r10, [r9], #4
    cmp r10, #0
    beq 9f
    say "\n"
    show at, r10
    mov r4, #0                      @ as for `describe`, with DACR in bits 5:4
2:  tst r4, #0xc8                   @ no XN, no large pages
    bne 5f
    and r0, r4, #7
    cmp r0, #4                      @ reserved
    andne r0, r4, #0x30
    cmpne r0, #0x20                 @ reserved
    beq 5f
    bl describe
    ubfx r0, r4, #4, #2
    lsl r0, r0, #6
    orr r0, r0, #1
    set_dacr r0
    bl flush
    say "\n"
    show ., r4
    mov r5, #0
3:  cmp r5, #7                      @ no user code is executed there: it cannot be
    beq 4f
    add r0, r10, #0x3000
    mov r1, r5
    bl probe
    bl fold
    show ., r0
4:  add r5, r5, #1
    cmp r5, #KINDS
    blo 3b
    add r0, r10, #0x3000            @ no fault, whoever may do what there
    mcr p15, 0, r0, c7, c11, 1      @ DCCMVAU
    mcr p15, 0, r0, c7, c10, 1      @ DCCMVAC
    mcr p15, 0, r0, c7, c5, 1       @ ICIMVAU
    dsb
5:  add r4, r4, #1
    cmp r4, #0x180
    blo 2b
    get r0, sum
    show sum, r0
    @ Nothing there, for the next place.
    ldr r0, =TABLES
    mov r1, #0
    str r1, [r0, r10, lsr #18]
    bl flush
    b 1b
9:  pop {r4-r12, pc}

    .ltorg

    .section .data
    .balign 4
@ The image, the pool, addresses that are not used, the first and the last window to a device.
places:
    .word 0xf6000000, 0xf6100000, 0xf8000000, 0xf9000000, 0xf9f00000
    .word 0
    .section .text
