@ The hypervisor's own exception vectors: what happens when an exception comes while the hypervisor itself runs.

    .syntax unified
    .arch armv7-a
    .arch_extension sec
    .arm

    .section .vectors, "ax", %progbits
    .balign 32
    .macro  vector handler
    COUNTS  exception-entry
    b       \handler
    .endm

    .globl hypervisor_vectors
    PART other, "vectors"
@ In: LR and SPSR as the exception left them, from Spica's own code.
hypervisor_vectors:
    b       hypervisor_reset
    vector  hypervisor_undefined
    vector  hypervisor_supervisor_call
    vector  hypervisor_prefetch_abort
    vector  hypervisor_data_abort
    b       hypervisor_hyp_trap
    vector  hypervisor_interrupt
    vector  hypervisor_fast_interrupt

@ Saves everything as a `Frame` (src/vectors.rs) on a stack for exceptions, lets `hypervisor_exception` decide, and goes
@ on at the frame's PC if that returns. `mode` is the mode that the exception is taken in, `adjust` what its LR is ahead
@ of the instruction (ARM ARM table B1-7), `kind` the Rust enum's number.
@
@ SP of Abort, Undefined and FIQ mode is no stack: once a guest has run, it is the address of its Cpu, where a trap
@ saves it. It is kept in TPIDRPRW meanwhile, which nobody else uses. There is one stack for all of them, because an
@ exception within an exception is the end: what is on the stack is not gone back to. Supervisor mode has the stack that
@ is in use.
    .macro  exception name, mode, adjust, kind
\name:
    .if \adjust
    sub     lr, lr, #\adjust
    .endif
    .if \mode != MODE_SVC
    mcr     p15, 0, sp, c13, c0, 4
    ldr     sp, =__exception_stack_top
    .endif
    srsdb   sp!, #\mode             @ pc, psr
    stmdb   sp!, {{r0-r12}}
    mov     r1, #\kind
    mov     r2, #\mode
    b       exception_common
    .endm

    exception hypervisor_reset,           MODE_SVC, 0, RESET
    exception hypervisor_undefined,       MODE_UND, 4, UNDEFINED
    exception hypervisor_supervisor_call, MODE_SVC, 4, SUPERVISOR_CALL
    exception hypervisor_prefetch_abort,  MODE_ABT, 4, PREFETCH_ABORT
    exception hypervisor_data_abort,      MODE_ABT, 8, DATA_ABORT
    exception hypervisor_hyp_trap,        MODE_SVC, 0, HYP_TRAP
    exception hypervisor_fast_interrupt,  MODE_FIQ, 4, FAST_INTERRUPT

@ In: R1 = kind, R2 = mode, SP = R0 to R12 of the frame, in that mode. Out: what was interrupted, all registers as they
@ are in the frame.
exception_common:
    @ SP and LR of the interrupted mode (r4 = its CPSR): System mode shares those of user mode.
    ldr     r4, [sp, #FRAME_PSR - FRAME_R]
    and     r5, r4, #PSR_MODE
    cmp     r5, #MODE_USR
    moveq   r5, #MODE_SYS
    orr     r5, r5, #PSR_IF
    orr     r2, r2, #PSR_IF
    msr     cpsr_c, r5
    mov     r7, sp
    mov     r8, lr
    msr     cpsr_c, r2
    stmdb   sp!, {{r7, r8}}
    sub     sp, sp, #4              @ 8-byte alignment: 18 words in all, on an aligned stack
    mov     r9, sp
    bic     sp, sp, #7
    add     r0, r9, #4
    clrex
    bl      {hypervisor_exception}
    add     sp, r9, #4 + FRAME_R
    ldr     lr, [sp, #FRAME_PC - FRAME_R]
    ldr     r0, [sp, #FRAME_PSR - FRAME_R]
    msr     spsr_fsxc, r0
    ldmia   sp, {{r0-r12}}
    mrc     p15, 0, sp, c13, c0, 4
    movs    pc, lr
    .pool

@ An interrupt while the hypervisor runs with interrupts unmasked: on the Supervisor stack, which is in use. In: LR and
@ SPSR as the exception left them. Changes nothing.
hypervisor_interrupt:
    sub     lr, lr, #4
    srsdb   sp!, #MODE_SVC
    cps     #MODE_SVC
    push    {{r0-r3, r12, lr}}
    and     r1, sp, #4
    sub     sp, sp, r1
    push    {{r1, r2}}
    clrex
    bl      {hypervisor_irq}
    pop     {{r1, r2}}
    add     sp, sp, r1
    pop     {{r0-r3, r12, lr}}
    rfeia   sp!
