@ Writes to its disk and reads again, when told by a key: w, r, or p for the first sector alone of the piece behind all
@ others; any other is the end. Parameter: how many pieces of 4 KiB.

    .include "runtime.inc"
    .include "clock.inc"
    .include "keys.inc"
    .include "virtio.inc"

    .equ HEAD, SCRATCH
    .equ STATUS, SCRATCH + 0x100
    .equ BUFFER, SCRATCH + 0x1000
    .equ MARK, 0xd15c0000

    .global main
main:
    push {r4-r12, lr}
    bl keys_on
    mov r0, #0
    bl virtio_start
    mov r0, #0
    bl virtio_queue
    bl virtio_go
    get r4, parameters
    ldr r5, =BUFFER
    mov r8, #0x1000                 @ bytes of a request
    say "up\n"
1:  bl key
    mov r6, #0                      @ the piece
    mov r7, #0                      @ what failed
    cmp r0, #'w'
    beq write
    cmp r0, #'r'
    beq read
    cmp r0, #'p'
    beq partly
    pop {r4-r12, pc}

write:
    bl piece
2:  str r1, [r0], #4
    cmp r0, r2
    blo 2b
    mov r0, #1
    bl request
    cmp r0, #0
    addne r7, r7, #1
    add r6, r6, #1
    cmp r6, r4
    blo write
    say "wrote"
    show failed, r7
    say "\n"
    b 1b

read:
    mov r0, #0
    bl request
    cmp r0, #0
    addne r7, r7, #1
    bl piece
3:  ldr r3, [r0], #4
    cmp r3, r1
    addne r7, r7, #1
    cmp r0, r2
    blo 3b
    add r6, r6, #1
    cmp r6, r4
    blo read
    say "read"
    show wrong, r7
    say "\n"
    b 1b

@ What was not written is as it always was: zero.
partly:
    mov r6, r4
    bl piece
4:  str r1, [r0], #4
    cmp r0, r2
    blo 4b
    mov r8, #0x200
    mov r0, #1
    bl request
    mov r8, #0x1000
    cmp r0, #0
    addne r7, r7, #1
    mov r0, #0
    bl request
    cmp r0, #0
    addne r7, r7, #1
    bl piece
    add r9, r0, #0x200
5:  ldr r3, [r0], #4
    cmp r3, r1
    addne r7, r7, #1
    cmp r0, r9
    moveq r1, #0
    cmp r0, r2
    blo 5b
    say "partly"
    show wrong, r7
    say "\n"
    b 1b

@ R0, R2: the buffer and its end; R1: each word of piece R6.
piece:
    mov r0, r5
    add r2, r5, #0x1000
    ldr r1, =MARK
    orr r1, r1, r6
    bx lr

@ Reads (R0 = 0) or writes (1) R8 bytes of piece R6. R0 = the status.
request:
    push {lr}
    ldr r1, =HEAD
    mov r2, #0
    str r0, [r1]
    str r2, [r1, #4]
    lsl r3, r6, #3
    str r3, [r1, #8]
    str r2, [r1, #12]
    ldr r3, =RINGS
    str r1, [r3]
    str r2, [r3, #4]
    mov r1, #16
    str r1, [r3, #8]
    ldr r1, =0x10001                @ the next is 1
    str r1, [r3, #12]
    str r5, [r3, #16]
    str r2, [r3, #20]
    str r8, [r3, #24]
    cmp r0, #0
    ldreq r1, =0x20003              @ for the device to write, and the next is 2
    ldrne r1, =0x20001
    str r1, [r3, #28]
    ldr r1, =STATUS
    str r1, [r3, #32]
    str r2, [r3, #36]
    mov r2, #1
    str r2, [r3, #40]
    mov r2, #2
    str r2, [r3, #44]
    mov r2, #0xff
    str r2, [r1]
    mov r0, #0
    bl virtio_request
    ldr r1, =STATUS
    ldrb r0, [r1]
    pop {pc}

    .ltorg
