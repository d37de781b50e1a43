@ The world switch: into the guest, and back at its next trap.
@
@ While a guest runs, the SP of every exception mode holds the address of its Vcpu (regs, pc, psr: see Context in
@ mod.rs), so that a trap is saved with one store-multiple of the User bank, with no scratch register and no branch
@ (the way of seL4). The guest runs in User mode; an exception from any other mode is a fault of Spica itself.
@
@ Offsets from the Vcpu are checked against the Rust types in mod.rs.

.equ CTX_JUMP_CACHE, -24
.equ CTX_LEAVE, -20
.equ CTX_HITS, -16
.equ CTX_HOST_SP, -12
.equ CTX_SCRATCH, -4
.equ CPU_PC, 60
.equ CPU_PSR, 64
.equ CPU_PAGE, 68
.equ PAGE_TARGET, 16

.equ MODE_FIQ, 0x11
.equ MODE_IRQ, 0x12
.equ MODE_SVC, 0x13
.equ MODE_ABT, 0x17
.equ MODE_UND, 0x1b

.equ TRAP_UNDEFINED, 1
.equ TRAP_SUPERVISOR_CALL, 2
.equ TRAP_PREFETCH_ABORT, 3
.equ TRAP_DATA_ABORT, 4
.equ TRAP_IRQ, 6
.equ TRAP_FIQ, 7

.section .text.world, "ax"
.arm

@ u32 world_enter(cpu: *mut Vcpu) -> trap
.global world_enter
world_enter:
    push {{r4-r12, lr}}
    str sp, [r0, #CTX_HOST_SP]
    ldr r1, [r0, #CPU_PSR]
    orr r1, r1, #0x40               @ FIQs stay masked: no board uses them
    msr spsr_fsxc, r1
    ldr lr, [r0, #CPU_PC]
    mov sp, r0
    ldmia r0, {{r0-r14}}^
    nop                             @ no banked register right behind LDM ^ (B9.3.5)
    movs pc, lr

@ void world_install(cpu: *mut Vcpu): parks the stack pointers of the exception modes at the Vcpu
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

@ Saves the guest and leaves to Rust; the exception came from User mode or it is our own fault.
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

world_undefined:
    SAVE_AND_LEAVE TRAP_UNDEFINED, 0        @ Rust subtracts 2 or 4, by the instruction set
world_supervisor_call:
    SAVE_AND_LEAVE TRAP_SUPERVISOR_CALL, 0
world_prefetch_abort:
    SAVE_AND_LEAVE TRAP_PREFETCH_ABORT, 4
world_data_abort:
    SAVE_AND_LEAVE TRAP_DATA_ABORT, 8
world_irq:
    SAVE_AND_LEAVE TRAP_IRQ, 4
world_fiq:
    SAVE_AND_LEAVE TRAP_FIQ, 4

@ r0 = trap; SP of this mode = the Vcpu
world_leave:
    cpsid aif, #MODE_SVC
    mov r1, sp
    ldr sp, [r1, #CTX_HOST_SP]
    pop {{r4-r12, pc}}

@ SVC from translated guest kernel code. An indirect branch whose target is in the jump cache is answered here.
@
@ The SVC was executed in A32 state, so it is at LR - 4, and nothing but code pages is executable in this world: it can be
@ read, and it is a word that the translator wrote, if not always one that it meant as an instruction. The target is the
@ guest's own business. Where it leads comes from privileged memory.
kernel_supervisor_call:
    stmia sp, {{r0-r3}}
    mrs r0, spsr
    ldr r2, 2f
    tst r0, #0x2f                   @ SPSR.T, and User mode
    ldreq r1, [lr, #-4]
    ldr r3, [sp, #CTX_LEAVE]
    cmpeq r1, r2
    cmpeq r3, #0                    @ an interrupt waits for the end of the block
    bne 1f
    ldr r3, [sp, #CPU_PAGE]
    ldr r2, [sp, #CTX_JUMP_CACHE]
    ldr r0, [r3, #PAGE_TARGET]
    ubfx r1, r0, #2, #14            @ jump_cache::ENTRIES = 16384, of 8 bytes
    add r1, r2, r1, lsl #3
    ldm r1, {{r2, r3}}
    cmp r2, r0
    bne 1f
    ldr r1, [sp, #CTX_HITS]
    mov lr, r3
    add r1, r1, #1
    str r1, [sp, #CTX_HITS]
    ldmia sp, {{r0-r3}}
    movs pc, lr
1:  ldmia sp, {{r0-r3}}
    b world_supervisor_call
2:  svc #2                          @ trap::INDIRECT

world_own_fault:
    b world_fault

@ Vectors while translated guest kernel code runs
.section .vectors, "ax"
.balign 32
.global world_kernel_vectors
world_kernel_vectors:
    b world_own_fault
    b world_undefined
    b kernel_supervisor_call
    b world_prefetch_abort
    b world_data_abort
    b world_own_fault
    b world_irq
    b world_fiq

@ Vectors while guest user code runs
.balign 32
.global world_user_vectors
world_user_vectors:
    b world_own_fault
    b world_undefined
    b world_supervisor_call
    b world_prefetch_abort
    b world_data_abort
    b world_own_fault
    b world_irq
    b world_fiq

@ A fault of Spica's own while a guest's vectors are installed: report it on a stack that is known to be good.
.section .text.world, "ax"
world_fault:
    mrs r0, spsr
    mov r1, lr
    mrs r2, cpsr
    ldr sp, =__exception_stack_top
    b {world_panic}
.ltorg
