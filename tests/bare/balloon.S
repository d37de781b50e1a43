@ Gives memory to its balloon, and takes it back, when told by a key: g, b, or c to look at it again; any other is
@ the end. Parameter: how many pages.

    .include "runtime.inc"
    .include "clock.inc"
    .include "keys.inc"
    .include "virtio.inc"

    .equ LIST, SCRATCH
    .equ PAGES, 0x40400000
    .equ MARK, 0x0ba11003

    .global main
main:
    push {r4-r12, lr}
    vectors_at balloon_vectors
    bl keys_on
    get r4, parameters
    ldr r5, =PAGES
    add r6, r5, r4, lsl #12         @ behind them
    ldr r1, =MARK
    mov r0, r5
1:  str r1, [r0], #4
    cmp r0, r6
    blo 1b
    ldr r1, =LIST
    lsr r0, r5, #12
2:  str r0, [r1], #4
    add r0, r0, #1
    cmp r0, r6, lsr #12
    blo 2b
    mov r0, #1                      @ MUST_TELL_HOST
    bl virtio_start
    mov r0, #0
    bl virtio_queue
    mov r0, #1
    bl virtio_queue
    bl virtio_go
    say "up\n"
3:  bl key
    cmp r0, #'g'
    beq give
    cmp r0, #'b'
    beq take_back
    cmp r0, #'c'
    beq compare
    pop {r4-r12, pc}

@ The request for all pages in queue R0.
request:
    ldr r2, =RINGS
    add r2, r2, r0, lsl #14
    ldr r1, =LIST
    str r1, [r2]
    mov r1, #0
    str r1, [r2, #4]
    lsl r1, r4, #2
    str r1, [r2, #8]
    mov r1, #0
    str r1, [r2, #12]
    b virtio_request

@ Pages that are given cannot be reached.
give:
    mov r0, #0
    put aborts, r0, r1
    bl request
    ldr r0, [r5]
    str r0, [r6, #-4]
    say "given"
    get r0, aborts
    show aborts, r0
    say "\n"
    b 3b

@ In those that are back is what was there, or nothing.
take_back:
    mov r0, #1
    bl request
compare:
    ldr r3, =MARK
    mov r7, #0
    mov r0, r5
4:  ldr r1, [r0], #4
    cmp r1, #0
    cmpne r1, r3
    addne r7, r7, #1
    cmp r0, r6
    blo 4b
    say "back"
    show foreign, r7
    say "\n"
    b 3b

    .balign 32
balloon_vectors:
    b .
    b .
    b .
    b .
    b aborted
    b .
    b .
    b .

aborted:
    push {r0, r1}
    get r0, aborts
    add r0, r0, #1
    put aborts, r0, r1
    pop {r0, r1}
    subs pc, lr, #4

    .ltorg

    .section .data
    .balign 4096                    @ Spica makes anew what it made of a page that changes
aborts:
    .word 0
    .section .text
