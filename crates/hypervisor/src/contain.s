@ Calls of a function on a stack of its own, and the way out of one that cannot go on: see contain.rs.

    .syntax unified
    .arch armv7-a
    .arm
    .section .text.contain, "ax", %progbits

@ u32 contain_call(data, function, stack, place): calls function(data) on the stack whose top is `stack`, aligned to 8,
@ with this stack's pointer kept at `place`. 0 where the function returned, 1 where `contain_abandon` did in its place.
    PART other, "contain"
    .globl contain_call
contain_call:
    push    {{r3-r11, lr}}
    str     sp, [r3]
    mov     r4, r3
    mov     sp, r2
    blx     r1
    ldr     sp, [r4]
    mov     r0, #0
    pop     {{r3-r11, pc}}

@ void contain_abandon(kept): returns from the call whose stack pointer is `kept`, in whatever mode this one is in, with
@ interrupts and asynchronous aborts masked, as they are wherever Spica runs.
    .globl contain_abandon
contain_abandon:
    cpsid   aif, #MODE_SVC
    mov     sp, r0
    mov     r0, #1
    pop     {{r3-r11, pc}}
