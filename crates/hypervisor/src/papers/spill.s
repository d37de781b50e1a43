@ The techniques to spill registers that are compared with the vCPU page (feature papers,
@ crates/dbt/src/papers/spill.rs). Included before fast.s; absent.s stands here in the image that is shipped.

.set kernel_undefined_vector, spill_undefined

@ From user code to the kernel: TPIDRURW is the guest's until here, PMCCNTR can be reached from here on. \page holds
@ the address of the vCPU page; uses R7 and the flags.
.macro SPILL_TO_KERNEL page
    ldr r7, [sp, #CTX_SPILL]
    cmp r7, #SPILL_TPIDRURW
    blo 9f
    bne 8f
    mrc p15, 0, r7, c13, c0, 2
    str r7, [\page, #PAGE_TPIDRURW]
    b 9f
8:  mov r7, #1
    mcr p15, 0, r7, c9, c14, 0      @ PMUSERENR.EN
9:
.endm

@ And back.
.macro SPILL_TO_USER page
    ldr r7, [sp, #CTX_SPILL]
    cmp r7, #SPILL_TPIDRURW
    blo 9f
    bne 8f
    ldr r7, [\page, #PAGE_TPIDRURW]
    mcr p15, 0, r7, c13, c0, 2
    b 9f
8:  mov r7, #0
    mcr p15, 0, r7, c9, c14, 0
9:
.endm

.section .text.world, "ax"
.arm

@ An Undefined Instruction of kernel code: a lightweight trap goes on behind itself, in this mode, with nothing
@ changed but the flags of this mode.
@
@ It was executed in A32 state and User mode, so it is at LR - 4, in a code page or in the return mirror; and the word
@ there is that of a trap, which the translator writes nowhere else (spica_dbt::spill).
    HANDLER fast, "lightweight traps"
spill_undefined:
    str r0, [sp, #CTX_SCRATCH]
    mrs r0, spsr
    tst r0, #PSR_T | NOT_USR        @ SPSR.T, and User mode
    ldreq r0, [lr, #-4]
    cmneq r0, #-SPILL_TRAP
    ldr r0, [sp, #CTX_SCRATCH]
    bxeq lr
    b answer_kernel_undefined
