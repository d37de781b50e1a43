@ The world switch: into the guest, and back at its next trap.
@
@ While a guest runs, the SP of every exception mode holds the address of its Cpu (regs, pc, psr: see Context in
@ mod.rs), so that a trap is saved with one store-multiple of the User bank, with no scratch register and no branch
@ (the way of seL4). The guest runs in User mode; an exception from any other mode is a fault of Spica itself.
@
@ Names in capitals come from the Rust types: assembly.rs.

.section .text.world, "ax"
.arm

@ u32 world_enter(cpu: *mut Cpu) -> trap, and which world was left In: R0 = the Cpu, Supervisor mode, IRQs masked,
@ the world's tables, DACR and VBAR in force. Returns by world_leave, by the calling convention.
.global world_enter
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
    tst r0, #0xf                    @ User mode is 0b10000
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

.macro TRAPS world, from
\world\()_undefined:
    SAVE_AND_LEAVE TRAP_UNDEFINED + \from, 0       @ Rust subtracts 2 or 4, by the instruction set
\world\()_call:
    SAVE_AND_LEAVE TRAP_SUPERVISOR_CALL + \from, 0
\world\()_prefetch_abort:
    SAVE_AND_LEAVE TRAP_PREFETCH_ABORT + \from, 4
\world\()_data_abort:
    SAVE_AND_LEAVE TRAP_DATA_ABORT + \from, 8
\world\()_irq:
    SAVE_AND_LEAVE TRAP_IRQ + \from, 4
\world\()_fiq:
    SAVE_AND_LEAVE TRAP_FIQ + \from, 4
.endm

    TRAPS kernel, 0
    TRAPS user, FROM_USER

@ In: R0 = trap, SP of this mode = the Cpu, which holds the guest. Out: what world_enter returns, R4 to R11 and SP as
@ it found them, Supervisor mode.
world_leave:
    cpsid aif, #MODE_SVC
    mov r1, sp
    ldr sp, [r1, #CTX_HOST_SP]
    pop {{r4-r12, pc}}

@ In: LR and SPSR as the exception left them, from a mode that is Spica's. Out: never; all else may be lost.
world_own_fault:
    b world_fault

@ Vectors while translated guest kernel code runs
.section .vectors, "ax"
.balign 32
.global world_kernel_vectors
world_kernel_vectors:
    b world_own_fault
    b kernel_undefined_vector        @ answer_kernel_undefined, or what spill.s puts before it
    b kernel_supervisor_call
    b kernel_prefetch_abort
    b kernel_data_abort
    b world_own_fault
    b kernel_irq
    b kernel_fiq

@ Vectors while guest user code runs
.balign 32
.global world_user_vectors
world_user_vectors:
    b world_own_fault
    b answer_user_undefined
    b user_supervisor_call
    b answer_prefetch_abort
    b answer_data_abort
    b world_own_fault
    b user_irq
    b user_fiq

@ A fault of Spica's own while a guest's vectors are installed: report it on a stack that is known to be good.
.section .text.world, "ax"
world_fault:
    mrs r0, spsr
    mov r1, lr
    mrs r2, cpsr
    ldr sp, =__exception_stack_top
    b {world_panic}
.ltorg
