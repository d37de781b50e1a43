@ An attack on virtio devices from within: everything is set up as it should be, and what is then asked of the device is
@ nearly right. Requests have headers that the devices know, chains lead on or around or out of the table, buffers lie
@ in memory, at its edges, in devices, in the rings themselves, and the balloon is given pages of anybody. See
@ attack.inc; what is only random is attack 5 of assault.S.

    .include "runtime.inc"
    .include "attack.inc"

    .equ RINGS, SCRATCH + 0x10000   @ of queue n at n * 0x4000: descriptors, what is available, and what is used, a page each
    .equ BUFFERS, SCRATCH + 0x40000
    .equ SIZE, 16                   @ of each queue
    .equ FREE, 0x40f00000           @ a megabyte that nothing is in: what the balloon may have

@ 0: all devices that are plugged, one after the other.
requests:
    next_is 4f
2:  get r0, attempts
    and r0, r0, #31
    ldr r4, =0x0a000000
    add r4, r4, r0, lsl #9
    ldr r0, [r4, #8]                @ DeviceID
    cmp r0, #0
    beq 4f
    bl set_up
    mov r8, #12                     @ rounds of requests
3:  bl buffers
    mov r9, #0                      @ queues
5:  bl chains
    str r9, [r4, #0x50]
    add r9, r9, #1
    cmp r9, #3
    blo 5b
    @ While the device is about it, what it is about changes.
    mov r9, #64
6:  bl random
    ldr r1, =RINGS
    ubfx r2, r0, #0, #14
    bic r2, r2, #3
    tst r0, #0xf0000
    streq r0, [r1, r2]
    ldr r0, [r4, #0x60]
    str r0, [r4, #0x64]
    subs r9, r9, #1
    bne 6b
    bl random
    ldr r1, =FREE
    bfi r1, r0, #2, #18
    ldr r0, [r1]                    @ a page that was given, perhaps
    subs r8, r8, #1
    bne 3b
4:  next_is 4b
    again 2b, 320
    b survived

@ The device at R4, with three queues.
set_up:
    push {lr}
    mov r0, #0
    str r0, [r4, #0x70]
    mov r0, #3
    str r0, [r4, #0x70]
    mov r1, #0
    str r1, [r4, #0x14]
    ldr r0, [r4, #0x10]             @ what it offers, all or some of it
    push {r0}
    bl random
    pop {r1}
    tst r0, #0x80000000
    andne r1, r1, r0
    mov r2, #0
    str r2, [r4, #0x24]
    str r1, [r4, #0x20]
    mov r2, #1
    str r2, [r4, #0x24]
    str r2, [r4, #0x20]             @ VERSION_1
    mov r0, #0xb
    str r0, [r4, #0x70]
    ldr r5, =RINGS
    mov r6, #0
1:  str r6, [r4, #0x30]
    mov r0, #SIZE
    str r0, [r4, #0x38]
    mov r0, #0
    str r5, [r4, #0x80]
    str r0, [r4, #0x84]
    add r1, r5, #0x1000
    str r0, [r1]
    str r1, [r4, #0x90]
    str r0, [r4, #0x94]
    add r1, r1, #0x1000
    str r0, [r1]
    str r1, [r4, #0xa0]
    str r0, [r4, #0xa4]
    mov r0, #1
    str r0, [r4, #0x44]
    add r5, r5, #0x4000
    add r6, r6, #1
    cmp r6, #3
    blo 1b
    mov r0, #0xf
    str r0, [r4, #0x70]
    pop {pc}

@ Headers of requests for disks, and page numbers for the balloon: the same words are either.
buffers:
    push {lr}
    ldr r5, =BUFFERS
    add r6, r5, #0x200
1:  bl random
    ldr r1, =kinds
    and r2, r0, #7
    ldr r1, [r1, r2, lsl #2]        @ kind, or page number
    ubfx r2, r0, #3, #8
    tst r1, #0x40000
    addne r1, r1, r2                @ some page of those
    mov r2, #0
    ubfx r3, r0, #11, #12           @ sector
    tst r0, #0xe0000000
    mvneq r3, r3
    mov r7, #0
    tst r0, #0x1c000000
    mvneq r7, #0
    stm r5!, {r1, r2, r3, r7}
    cmp r5, r6
    blo 1b
    pop {pc}

@ Descriptors of queue R9, and some of them made available.
chains:
    push {lr}
    ldr r5, =RINGS
    add r5, r5, r9, lsl #14
    mov r6, #0
1:  bl random
    ldr r1, =places
    and r2, r0, #15
    ldr r1, [r1, r2, lsl #2]
    ubfx r2, r0, #4, #5
    add r1, r1, r2, lsl #4
    ldr r3, =lengths
    ubfx r2, r0, #9, #3
    ldr r3, [r3, r2, lsl #2]
    mov r2, #0
    tst r0, #0xf8000000
    mvneq r2, #0                    @ beyond 32 bits
    ubfx r7, r0, #12, #2            @ NEXT, WRITE
    tst r0, #0x1c000
    orreq r7, r7, #4                @ INDIRECT
    ubfx r10, r0, #17, #4           @ on to any, mostly
    tst r0, #0x3e00000
    addeq r10, r10, #SIZE
    orr r7, r7, r10, lsl #16
    add r10, r5, r6, lsl #4
    str r1, [r10]
    str r2, [r10, #4]
    str r3, [r10, #8]
    str r7, [r10, #12]
    add r6, r6, #1
    cmp r6, #SIZE
    blo 1b
    @ Entries of what is available, and how far it goes.
    add r5, r5, #0x1000
    mov r6, #0
2:  bl random
    and r0, r0, #0x1f
    cmp r0, #20
    subhs r0, r0, #16
    add r1, r5, #4
    add r1, r1, r6, lsl #1
    strh r0, [r1]
    add r6, r6, #1
    cmp r6, #SIZE
    blo 2b
    bl random
    ldrh r1, [r5, #2]
    and r2, r0, #7
    tst r0, #0xf00
    ubfxeq r2, r0, #16, #16         @ more than there are
    add r1, r1, r2
    dsb
    strh r1, [r5, #2]
    dsb
    pop {pc}

    .ltorg

    .section .data
    .balign 4
attacks:
    .word requests
@ Requests for disks: in, out, flush, identity, discard, write zeroes. Page numbers, of which bit 18 tells them: of free
@ memory, and of what is beyond RAM.
kinds:
    .word 0, 1, 4, 8, 11, FREE >> 12, 0x40000 + 0xb6000, 0x41000
places:
    .word BUFFERS, BUFFERS, BUFFERS, BUFFERS, BUFFERS + 0x1000, BUFFERS + 0x2ffc, BUFFERS, BUFFERS + 0x4000
    .word RINGS, RINGS + 0x1000, RINGS + 0x2000, 0x40ffff00, 0x41000000, UART, 0xf6000000, FREE
lengths:
    .word 16, 1, 512, 4096, 4, 64, 0, 0xfffffff0
    .section .text
