@ The world switch: into the guest, and back at its next trap.
@
@ While a guest runs, the SP of every exception mode holds the address of its Vcpu (regs, pc, psr: see Context in
@ mod.rs), so that a trap is saved with one store-multiple of the User bank, with no scratch register and no branch
@ (the way of seL4). The guest runs in User mode; an exception from any other mode is a fault of Spica itself.
@
@ Offsets from the Vcpu are checked against the Rust types in mod.rs.

.equ CTX_ALIASES, -264
.equ CTX_VFP_READY, -260
.equ CTX_VFP_TURNS, -256
.equ CTX_USER_UNDEFINED, -252
.equ CTX_WATCHED_PAGES, -248
.equ CTX_QUICK, -244
.equ CTX_PRIVATE, -240
.equ CTX_HINTS, -236
.equ CTX_HOME, -232
.equ CTX_RAM, -228                 @ struct GuestRam
.equ CTX_UNDEFINED_ENTRY, -216
.equ CTX_DATA_ABORT_ENTRY, -212
.equ CTX_PREFETCH_ABORT_ENTRY, -208
.equ CTX_CALL_ENTRY, -204
.equ CTX_USER_FILLS, -200
.equ CTX_USER_ABORTS, -196
.equ CTX_FORGET_MEGABYTE, -192
.equ CTX_FORGET_TABLES, -188
.equ CTX_DACR_PAIRS, -180
.equ CTX_GUEST_TTBR0, -164
.equ CTX_GUEST_CONTEXTIDR, -160
.equ CTX_SPACE_SWITCHED, -156
.equ CTX_SPACE_SWITCHES, -152
.equ CTX_SPACES, -148
.equ CTX_CLOCK, -144               @ struct Clock
.equ CTX_COUNTER_READS, -104
.equ CTX_TLB_ASID, -100
.equ CTX_WATCHED, -96
.equ CTX_TABLE_OFFSET, -92
.equ CTX_TLB_PAGES, -88
.equ CTX_JUMP_CACHE, -84
.equ CTX_LEAVE, -80
.equ CTX_HITS, -76
.equ CTX_KERNEL, -64            @ struct Side: TTBR0, CONTEXTIDR, DACR, VBAR, the guest's DACR behind it
.equ CTX_KERNEL_DACR, -56
.equ CTX_KERNEL_GUEST_DACR, -48
.equ CTX_USER, -44
.equ CTX_USER_GUEST_DACR, -28
.equ CTX_LONG_WAY, -24
.equ CTX_USER_CALLS, -20
.equ CTX_KERNEL_RETURNS, -16
.equ CTX_HOST_SP, -12
.equ CTX_SCRATCH, -4
.equ CPU_PC, 60
.equ CPU_PSR, 64
.equ CPU_PAGE, 68

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
.equ FROM_USER, 8                  @ added where the guest's user code was left

.section .text.world, "ax"
.arm

@ u32 world_enter(cpu: *mut Vcpu) -> trap, and which world was left
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

@ r0 = trap; SP of this mode = the Vcpu
world_leave:
    cpsid aif, #MODE_SVC
    mov r1, sp
    ldr sp, [r1, #CTX_HOST_SP]
    pop {{r4-r12, pc}}

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
