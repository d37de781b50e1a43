@ Gives as much memory as it can to its balloon, and resets itself, again and again: all of it is to come back at once.
@ Parameter 1: how many pages.

    .include "runtime.inc"
    .include "virtio.inc"

    .equ LIST, 0x40400000
    .equ PAGES, 0x40800000
    .equ SYSTEM_RESET, 0x84000009   @ PSCI (DEN0022)

    .global main
main:
    get r4, parameters + 4
    ldr r0, =(PAGES >> 12)
    ldr r1, =LIST
    add r2, r0, r4
1:  str r0, [r1], #4
    add r0, r0, #1
    cmp r0, r2
    blo 1b
    mov r0, #1                      @ MUST_TELL_HOST
    bl virtio_start
    mov r0, #0
    bl virtio_queue
    bl virtio_go
    ldr r2, =RINGS                  @ descriptor 0: the list, for the device to read
    ldr r1, =LIST
    str r1, [r2]
    mov r1, #0
    str r1, [r2, #4]
    lsl r1, r4, #2
    str r1, [r2, #8]
    mov r1, #0
    str r1, [r2, #12]
    mov r0, #0
    bl virtio_request
    ldr r0, =SYSTEM_RESET
    smc #0
    b .
    .ltorg
