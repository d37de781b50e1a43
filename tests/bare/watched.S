@ For watchpoints: a round writes and reads words of a page by instructions that have labels, in the kernel and in user
@ code of both instruction sets, and words beside them. A round is made for each key that is typed; for a `d`, its
@ entropy device writes instead.

    .include "runtime.inc"
    .include "tables.inc"
    .include "clock.inc"
    .include "keys.inc"
    .include "virtio.inc"

    .equ WORD, SCRATCH              @ the test knows these
    .equ RANGE, SCRATCH + 0x100
    .equ LOCK, SCRATCH + 0x1200
    .equ BUFFER, SCRATCH + 0x2000

    .global main, k_store, k_load, k_multiple, k_lock, k_check, u_store, u_load, t_store
main:
    push {r4-r12, lr}
    bl flat_tables
    bl mmu_on
    ldr r0, =TABLES + (GICD >> 18)
    ldr r1, =GICD + 0xc16           @ device, never executed
    str r1, [r0]
    ldr r0, =TABLES + (SLOT >> 18)
    ldr r1, =SLOT + 0xc16
    str r1, [r0]
    bl keys_on
    mov r0, #0
    bl virtio_start
    mov r0, #0
    bl virtio_queue
    bl virtio_go
    say "up\n"
1:  bl key
    cmp r0, #'d'
    ldreq r1, =by_device
    ldrne r1, =round
    blx r1
    say "\ndone\n"
    b 1b

    .ltorg

@ Sixteen bytes of BUFFER.
by_device:
    push {lr}
    ldr r0, =RINGS
    ldr r1, =BUFFER
    str r1, [r0]
    mov r1, #0
    str r1, [r0, #4]
    mov r1, #16
    str r1, [r0, #8]
    mov r1, #2                      @ the device writes
    str r1, [r0, #12]
    mov r0, #0
    bl virtio_request
    pop {pc}

round:
    push {r4-r8, lr}
    ldr r4, =WORD
    ldr r0, [r4, #4]                @ counts rounds
    add r0, r0, #1
    str r0, [r4, #4]
k_store:
    str r0, [r4]
    str r0, [r4, #8]
k_load:
    ldr r1, [r4]
    ldr r5, =RANGE
    mov r1, r0
    mov r2, r0
    mov r3, r0
k_multiple:
    stmia r5, {r0-r3}
    ldr r5, =LOCK
k_lock:
1:  ldrex r1, [r5]
    add r1, r1, #1
    strex r2, r1, [r5]
    cmp r2, #0
    bne 1b
    ldr r1, [r5]
    cmp r0, r1                      @ once for each round
    bne wrong
    user store_as_user
    ldr r0, =store_in_thumb + 1
    mov r1, #0
    bl run_user
k_check:
    ldr r1, [r4]
    ldr r0, [r4, #4]
    orr r0, r0, #0x4200
    cmp r0, r1
    bne wrong
    pop {r4-r8, pc}
wrong:
    say "wrong\n"
    b wrong

    .ltorg

store_as_user:
    ldr r4, =WORD
    ldr r0, [r4, #4]
    add r0, r0, #0
u_store:
    str r0, [r4]
    str r0, [r4, #12]
u_load:
    ldr r1, [r4]
    svc #LEAVE

    .ltorg

    .thumb
    .thumb_func
store_in_thumb:
    ldr r4, =WORD
    movs r0, #0x42
    cmp r0, #0x42
    itt eq
t_store:
    strbeq r0, [r4, #1]
    addeq r0, r0, #1
    cmp r0, #0x43                   @ the rest of the IT block was executed
    it ne
    udfne #1
    svc #LEAVE
    .balign 4
    .ltorg
    .arm
