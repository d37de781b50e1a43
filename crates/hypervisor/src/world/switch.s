@ The world switch: into the guest, and back at its next trap.
@
@ While a guest runs, the SP of every exception mode holds the address of its Cpu (regs, pc, psr: see Context in
@ mod.rs), so that a trap is saved with one store-multiple of the User bank, with no scratch register and no branch
@ (the way of seL4). The guest runs in User mode; an exception from any other mode is a fault of Spica itself.
@
@ Names in capitals come from the Rust types: assembly.rs.

.section .text.world, "ax"
.arm

@ u32 world_enter(cpu: *mut Cpu) -> trap, and which privilege was left. In: R0 = the Cpu, Supervisor mode, IRQs masked,
@ the view's tables, DACR and VBAR in force. Returns by world_leave, by the calling convention.
.global world_enter
    HANDLER slow, "to Rust and back"
    GUEST_ENTRY
world_enter:
    push {{r4-r12, lr}}
    str sp, [r0, #CTX_HOST_SP]
    ldr r1, [r0, #CPU_PSR]
    orr r1, r1, #PSR_FMASK          @ FIQs stay masked: no board uses them
    msr spsr_fsxc, r1
    ldr lr, [r0, #CPU_PC]
    mov sp, r0
    ldmia r0, {{r0-r14}}^
    nop                             @ no banked register right behind LDM ^ (B9.3.5)
    movs pc, lr

@ void world_install(cpu: *mut Cpu): parks the stack pointers of the exception modes at the Cpu
@ In: R0, Supervisor mode. Changes nothing but those.
.global world_install
world_install:
    cps #MODE_ABT
    mov sp, r0
    cps #MODE_UND
    mov sp, r0
    cps #MODE_IRQ
    mov sp, r0
    cps #MODE_FIQ
    mov sp, r0
    cps #MODE_SVC
    bx lr

@ Saves the guest and leaves to Rust; the exception came from User mode or it is our own fault. In: SP = the Cpu, LR
@ and SPSR as the exception left them, all other registers the guest's. To world_leave with R0 = trap.
.macro SAVE_AND_LEAVE trap, adjust
    str r0, [sp, #CTX_SCRATCH]
    mrs r0, spsr
    tst r0, #NOT_USR                @ User mode is 0b10000
    ldr r0, [sp, #CTX_SCRATCH]
    bne world_own_fault
    stmia sp, {{r0-r14}}^
    sub r0, lr, #\adjust
    str r0, [sp, #CPU_PC]
    mrs r1, spsr
    str r1, [sp, #CPU_PSR]
    mov r0, #\trap
    b world_leave
.endm

@ All of these: as SAVE_AND_LEAVE.
    RUST_ENTRY "a place in the return mirror without a block; undefined instruction"
kernel_undefined:
    SAVE_AND_LEAVE TRAP_UNDEFINED, 0            @ Rust subtracts 2 or 4, by the instruction set
    RUST_ENTRY_OF_TRAPS "trap of kernel code"
kernel_call:
    SAVE_AND_LEAVE TRAP_SUPERVISOR_CALL, 0
    RUST_ENTRY "a place in the return mirror without a page"
kernel_prefetch_abort:
    SAVE_AND_LEAVE TRAP_PREFETCH_ABORT, 4
    RUST_ENTRY "data abort of kernel code"
kernel_data_abort:
    SAVE_AND_LEAVE TRAP_DATA_ABORT, 8
    RUST_ENTRY "interrupt of kernel code"
kernel_irq:
    SAVE_AND_LEAVE TRAP_IRQ, 4
    RUST_ENTRY "fast interrupt of kernel code"
kernel_fiq:
    SAVE_AND_LEAVE TRAP_FIQ, 4

    RUST_ENTRY "undefined instruction of user code"
user_undefined:
    SAVE_AND_LEAVE TRAP_UNDEFINED + FROM_USER, 0
    RUST_ENTRY "system call of user code"
user_call:
    SAVE_AND_LEAVE TRAP_SUPERVISOR_CALL + FROM_USER, 0
    RUST_ENTRY "prefetch abort of user code"
user_prefetch_abort:
    SAVE_AND_LEAVE TRAP_PREFETCH_ABORT + FROM_USER, 4
    RUST_ENTRY "data abort of user code"
user_data_abort:
    SAVE_AND_LEAVE TRAP_DATA_ABORT + FROM_USER, 8
    RUST_ENTRY "interrupt of user code"
user_irq:
    SAVE_AND_LEAVE TRAP_IRQ + FROM_USER, 4
    RUST_ENTRY "fast interrupt of user code"
user_fiq:
    SAVE_AND_LEAVE TRAP_FIQ + FROM_USER, 4

@ In: R0 = trap, SP of this mode = the Cpu, which holds the guest. Out: what world_enter returns, R4 to R11 and SP as
@ it found them, Supervisor mode.
    PART slow, "to Rust and back"
world_leave:
    cpsid aif, #MODE_SVC
    mov r1, sp
    ldr sp, [r1, #CTX_HOST_SP]
    pop {{r4-r12, pc}}

@ In: LR and SPSR as the exception left them, from a mode that is Spica's. Out: never; all else may be lost.
world_own_fault:
    b world_fault

@ A vector, by which a trap of this class is taken (crates/bench/src/events.rs), if it is not found to be another one.
.macro VECTOR target, trap
    COUNTS exception-entry
    COUNTS "trap.\trap"
    b \target
.endm

@ Vectors while translated guest kernel code runs. An SVC says itself what it is for, unless it has a condition: that is
@ in place of a coprocessor instruction. Nothing but a branch through the return mirror leads to where nothing is.
.section .vectors, "ax"
.balign 32
.global world_kernel_vectors
    PART fast, "vectors"
world_kernel_vectors:
    b world_own_fault
    VECTOR kernel_undefined_vector, undefined   @ answer_kernel_undefined, or what spill.s puts before it
    VECTOR kernel_supervisor_call, coprocessor
    VECTOR kernel_prefetch_abort, indirect-branch
    VECTOR answer_kernel_data_abort, hidden-fault
    b world_own_fault
    VECTOR kernel_irq, interrupt
    VECTOR kernel_fiq, interrupt

@ Vectors while guest user code runs
.balign 32
.global world_user_vectors
world_user_vectors:
    b world_own_fault
    VECTOR answer_user_undefined, undefined
    VECTOR user_supervisor_call, user-call
    VECTOR answer_prefetch_abort, hidden-fault
    VECTOR answer_data_abort, hidden-fault
    b world_own_fault
    VECTOR answer_user_irq, interrupt
    VECTOR user_fiq, interrupt

@ A fault of Spica's own while a guest's vectors are installed: report it on a stack that is known to be good.
.section .text.world, "ax"
world_fault:
    mrs r0, spsr
    mov r1, lr
    mrs r2, cpsr
    ldr sp, =__exception_stack_top
    b {world_panic}
.ltorg
