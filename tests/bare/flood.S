@ Asks as much of Spica as it can, for ever. Parameter 0 says of what.

    .include "runtime.inc"
    .include "tables.inc"
    .include "clock.inc"

    .equ SLOT, 0x0a000000           @ the first virtio device
    .equ QUEUE, SCRATCH             @ descriptors, and a page further on what is available, and what was used
    .equ BUFFER, SCRATCH + 0x4000
    .equ MANY, 0x40400000           @ a lot of code

    .global main
main:
    vectors_at flood_vectors
    get r0, parameters
    ldr r1, =kinds
    ldr r1, [r1, r0, lsl #2]
    bx r1

@ 0: computes, as any guest may.
spin:
    b spin

@ 1: maps pages, uses them, and maps others in their place.
pages:
    bl window
1:  mov r4, #0
2:  add r0, r4, r5
    and r0, r0, #0xff
    ldr r1, =SCRATCH + 0x32         @ small page, for all
    orr r1, r1, r0, lsl #12
    ldr r0, =LEVEL2
    str r1, [r0, r4, lsl #2]
    ldr r0, =WINDOW
    add r0, r0, r4, lsl #12
    forget r0
    ldr r1, [r0]
    add r4, r4, #1
    cmp r4, #256
    blo 2b
    add r5, r5, #1
    b 1b

@ A megabyte of pages, and the MMU on.
window:
    push {lr}
    bl flat_tables
    ldr r0, =TABLES + (WINDOW >> 18)
    ldr r1, =LEVEL2 + 1
    str r1, [r0]
    mov r0, #0
    ldr r1, =SCRATCH + 0x32
    ldr r2, =LEVEL2
1:  str r1, [r2], #4
    add r1, r1, #0x1000
    add r0, r0, #1
    cmp r0, #256
    blo 1b
    bl mmu_on
    pop {pc}

@ 2: forgets all translations, then those of one address space, then one; and uses some again in between.
maintenance:
    bl window
    ldr r4, =WINDOW
1:  mov r0, #0
    mcr p15, 0, r0, c8, c7, 0
    dsb
    isb
    bl touch
    mov r0, #1
    mcr p15, 0, r0, c8, c7, 2
    dsb
    isb
    bl touch
    forget r4
    bl touch
    b 1b
touch:
    mov r1, #64
    mov r2, r4
1:  ldr r0, [r2]
    add r2, r2, #0x1000
    subs r1, r1, #1
    bne 1b
    bx lr

@ 3: more address spaces than Spica keeps. Their pages are not global: what holds none but global ones is good under any
@ ASID.
spaces:
    bl window
    ldr r4, =LEVEL2
    add r2, r4, #0x400
2:  ldr r1, [r4]
    orr r1, r1, #0x800              @ nG
    str r1, [r4], #4
    cmp r4, r2
    blo 2b
    bl flush
    ldr r4, =WINDOW
    mov r5, #0
1:  and r0, r5, #0xff
    set_contextidr r0
    bl touch
    add r5, r5, #1
    b 1b

@ 4: device registers.
devices:
    ldr r0, =UART
    ldr r1, =GICD
1:  ldr r2, [r0, #0x18]
    ldr r2, [r1, #4]
    str r2, [r0, #0x24]
    b 1b

@ 5, 6: requests to the device in slot 0, as fast as it takes them: for random bytes, or to send a frame to everybody.
random_bytes:
    mov r5, #0                      @ the queue
    ldr r6, =(2 << 16) | 256        @ its buffers: flags and length
    b requests
frames:
    ldr r0, =BUFFER + 12
    mvn r1, #0
    str r1, [r0]
    strh r1, [r0, #4]
    ldr r2, =SLOT + 0x100
    mov r3, #6
1:  ldrb r1, [r2], #1               @ the card's address
    strb r1, [r0, #6]
    add r0, r0, #1
    subs r3, r3, #1
    bne 1b
    mov r5, #1
    ldr r6, =12 + 1514
requests:
    ldr r4, =SLOT
    mov r0, #0
    str r0, [r4, #0x70]
    mov r0, #3
    str r0, [r4, #0x70]
    mov r0, #1
    str r0, [r4, #0x24]
    str r0, [r4, #0x20]             @ VERSION_1
    mov r0, #0xb
    str r0, [r4, #0x70]
    str r5, [r4, #0x30]
    mov r0, #8
    str r0, [r4, #0x38]
    ldr r0, =QUEUE
    str r0, [r4, #0x80]
    add r1, r0, #0x1000
    str r1, [r4, #0x90]
    add r2, r0, #0x2000
    str r2, [r4, #0xa0]
    mov r3, #0
    str r3, [r1]
    str r3, [r2]
    add r1, r1, #4
1:  ldr r7, =BUFFER
    mov r8, #0
    uxth r9, r6
    lsr r10, r6, #16
    stm r0!, {r7-r10}
    strh r3, [r1], #2
    add r3, r3, #1
    cmp r3, #8
    blo 1b
    mov r0, #1
    str r0, [r4, #0x44]
    mov r0, #0xf
    str r0, [r4, #0x70]
    mov r3, #0
    ldr r1, =QUEUE + 0x1000
    ldr r2, =QUEUE + 0x2000
2:  add r3, r3, #8
    strh r3, [r1, #2]
    dsb
    str r5, [r4, #0x50]
3:  ldrh r0, [r2, #2]
    uxth r7, r3
    cmp r0, r7
    bne 3b
    b 2b

@ 7: more code than the code cache has room for: branches from each second word to the next but one.
code:
    ldr r4, =MANY
    ldr r5, =MANY + 4 * 140000
    ldr r6, =0xea000000             @ B to the word behind the next
    ldr r7, =0xe2800001             @ ADD r0, r0, #1
1:  stm r4!, {r6, r7}
    cmp r4, r5
    blo 1b
    ldr r7, =0xe12fff1e
    str r7, [r4]
    publish_all
2:  ldr r4, =MANY
    blx r4
    b 2b

@ 8: code that rewrites itself.
rewriting:
    mov r4, #0
1:  adr r1, 2f
    ldr r2, =0xe2800000             @ ADD r0, r0, #n
    and r3, r4, #15
    orr r2, r2, r3
    str r2, [r1]
    mcr p15, 0, r1, c7, c11, 1
    dsb
    mcr p15, 0, r1, c7, c5, 1
    mcr p15, 0, r1, c7, c5, 6
    dsb
    isb
2:  nop
    add r4, r4, #1
    b 1b

@ 9: exceptions of all kinds.
faults:
    ldr r1, =ABSENT
1:  ldr r0, [r1]
    udf #0
    svc #0
    b 1b

@ 10: is reset as soon as it is there.
resets:
    ldr r0, =0x84000009             @ PSCI SYSTEM_RESET
    smc #0

@ 11: sleeps for so many ticks, and again.
wakes:
    bl timer_interrupt_on
1:  get r0, parameters + 4
    bl sleep
    b 1b

@ 12: prints.
output:
    say "What is to be printed here is not short, and when it ends, it begins anew.\n"
    b output

@ 13: prints lines of 64 bytes on the virtio console in slot 0, as many as it takes.
terminal:
    ldr r0, =BUFFER
    mov r1, #1
    mov r2, #'x'
    mov r3, #'\n'
1:  tst r1, #63
    strbne r2, [r0], #1
    strbeq r3, [r0], #1
    add r1, r1, #1
    cmp r1, #4096
    bls 1b
    mov r5, #1
    mov r6, #4096
    b requests

    .balign 32
flood_vectors:
    b .
    movs pc, lr
    movs pc, lr
    b .
    subs pc, lr, #4
    b .
    b .
    b .

    .ltorg

    .section .data
    .balign 4
kinds:
    .word spin, pages, maintenance, spaces, devices, random_bytes, frames, code, rewriting, faults, resets, wakes, output, terminal
    .section .text
