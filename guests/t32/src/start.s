@ The start, the exception vectors, and the way to User mode and back: what is in no language but this. All of it is
@ T32.

    .syntax unified
    .thumb

    .equ MODE_IRQ, 0x12
    .equ MODE_SVC, 0x13
    .equ MODE_ABT, 0x17
    .equ MODE_UND, 0x1b
    .equ MODE_SYS, 0x1f

@ Entered in Supervisor mode, in Thumb state, with the MMU off and everything masked. A stack for each mode, then Rust.
    .section .head, "ax", %progbits
    .global _start
    .type _start, %function
_start:
    cps #MODE_UND
    ldr r0, =__undefined_stack
    mov sp, r0
    cps #MODE_ABT
    ldr r0, =__abort_stack
    mov sp, r0
    cps #MODE_IRQ
    ldr r0, =__interrupt_stack
    mov sp, r0
    cps #MODE_SVC
    ldr r0, =__supervisor_stack
    mov sp, r0
    bl kernel
    b .
    .ltorg

@ The vectors as SCTLR.TE wants them: T32, a word each (B1.8.1). FIQs stay masked.
    .section .vectors, "ax", %progbits
    .balign 32
    .global vectors
vectors:
    b.w .
    b.w on_undefined
    b.w on_supervisor_call
    b.w on_prefetch_abort
    b.w on_data_abort
    b.w .
    b.w on_interrupt
    b.w .

@ Keeps what was interrupted as `Frame` of src/exceptions.rs on the mode's own stack, and calls `exception` there with
@ R0 = the frame and R1 = the vector. `adjust` is what LR is beyond the preferred return address (Table B1-7), where
@ that does not depend on the instruction set.
    .macro entry name, mode, vector, adjust
    .type \name, %function
\name:
    .if \adjust
    sub lr, lr, #\adjust
    .endif
    srsdb sp!, #\mode
    push {r0-r12}
    mov r0, sp
    movs r1, #\vector
    mov r4, sp
    bic r5, r4, #7                  @ as the procedure call standard wants the stack
    mov sp, r5
    bl exception
    mov sp, r4
    clrex                           @ what was interrupted may be between LDREX and STREX (A3.4.4)
    pop {r0-r12}
    rfeia sp!
    .endm

    entry on_undefined, MODE_UND, 1, 0
    entry on_supervisor_call, MODE_SVC, 2, 0
    entry on_prefetch_abort, MODE_ABT, 3, 4
    entry on_data_abort, MODE_ABT, 4, 8
    entry on_interrupt, MODE_IRQ, 6, 4

@ Runs the function at R0 in User mode, in the state that its bit 0 says, with the argument R1 and the stack R2, until
@ it leaves: then `exception` returns to `user_left`, with the user's R0. SP of this mode is as it was when the program
@ was entered.
    .text
    .global enter_user
    .type enter_user, %function
enter_user:
    push {r3-r11, lr}
    cps #MODE_SYS
    mov sp, r2
    cps #MODE_SVC
    and r3, r0, #1
    lsls r3, r3, #5                 @ T
    adds r3, r3, #0x10              @ User mode, nothing masked
    bic r0, r0, #1
    push {r0, r3}
    mov r0, r1
    rfeia sp!
    .global user_left
    .type user_left, %function
user_left:
    pop {r3-r11, pc}
