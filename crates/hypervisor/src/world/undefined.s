@ VFP turned on and off without leaving assembly, and user code that finds it off: a guest that switches VFP registers
@ lazily, as Linux does, has an Undefined Instruction exception of user code, one of its own kernel, and two writes of
@ FPEXC each time.
@
@ This is vm/trap/undefined.rs once more, for the frequent of its cases. Context::vfp_ready says that the core holds
@ this guest's registers and that CPACR lets its kernel and its user code use them; so the worst that a forged word of
@ the vCPU page does is to turn on or off what is the guest's. What is really on, FPEXC itself says: Rust looks there,
@ too.

.section .text.world, "ax"
.arm
.fpu neon

@ trap::VFP: the guest has turned off what is really on. Its registers stay in the core. In: R2, LR = where the block
@ goes on, as from kernel_supervisor_call. Uses R0, R3.
    HANDLER fast, "VFP turned on and off"
turn_vfp_off:
    ldr r0, [sp, #CTX_VFP_READY]
    mov r3, #0
    cmp r0, #0
    beq slow_path
    vmsr fpexc, r3
    str r3, [r2, #PAGE_FPEXC_REAL]
    GO_ON                           @ and so FPEXC is synchronised

@ R2 = the vCPU page. If the guest has VFP on, and the core could but has not: turns it on, and executes the
@ instruction again, at LR - \back. Should it be another one, it comes back with VFP on. Falls through, with Z set, if
@ the guest has VFP off; goes to \other if VFP is not why the exception came, or not ready. Uses R1, R3.
.macro TURN_VFP_ON other, back, saved
    ldr r1, [r2, #PAGE_FPEXC]
    ldr r3, [sp, #CTX_VFP_READY]
    ands r1, r1, #FPEXC_EN
    beq 1f
    cmp r3, #0
    beq \other
    vmrs r3, fpexc
    tst r3, #FPEXC_EN
    bne \other
    vmsr fpexc, r1
    str r1, [r2, #PAGE_FPEXC_REAL]
    sub lr, lr, \back
    ldr r1, [sp, #CTX_VFP_TURNS]
    add r1, r1, #1
    str r1, [sp, #CTX_VFP_TURNS]
    ldmia sp, {{\saved}}
    movs pc, lr
1:
.endm

@ An Undefined Instruction of translated kernel code, in A32 state. Those of the return mirror come here, too. In: LR
@ = behind it, SPSR. Out: the same instruction, or kernel_undefined. Saves R0 to R3 and uses them.
answer_kernel_undefined:
    stmia sp, {{r0-r3}}
    mrs r0, spsr
    ldr r2, [sp, #CTX_PAGE]
    tst r0, #PSR_T | NOT_USR        @ SPSR.T, and User mode
    bne 2f
    TURN_VFP_ON 2f, #4, r0-r3
2:  ldmia sp, {{r0-r3}}
    b kernel_undefined

@ One of user code, native. With VFP off it is the guest's own, unless it may be a read of the generic timer's
@ counter, which is Rust's where the core has none: a coprocessor instruction for CP15. It is read to see that; what
@ it is fetched from may be unreadable, or be at the end of a page, so the MMU is asked first (B4.2.4), and nothing
@ here faults. In: LR = behind it, SPSR. Out: the same instruction, the block at CTX_UNDEFINED_ENTRY as kernel
@ code, or user_undefined. Saves R0 to R7 and uses them.
    HANDLER fast, "VFP turned on and off"
answer_user_undefined:
    stmia sp, {{r0-r7}}
    mrs r0, spsr
    ldr r2, [sp, #CTX_PAGE]
    tst r0, #NOT_USR                @ User mode
    bne 3f
    tst r0, #PSR_T
    mov r4, #4
    movne r4, #2
    TURN_VFP_ON 3f, r4, r0-r7
    sub r1, lr, r4
    cmp r1, #REGION_MIN
    bhs 3f
    mcr p15, 0, r1, c7, c8, 2       @ ATS1CUR: as a read by User mode
    isb
    mrc p15, 0, r3, c7, c4, 0       @ PAR
    ldr r4, [sp, #CTX_UNDEFINED_ENTRY]
    tst r3, #1
    bne 3f
    ubfx r3, r1, #0, #12
    cmp r4, #0
    beq 3f
    tst r0, #PSR_T
    ldreq r5, [r1]
    beq 1f
    cmp r3, #0xff0                  @ two halfwords: both in the page
    bhi 3f
    ldrh r3, [r1]
    ldrh r5, [r1, #2]
    orr r5, r5, r3, lsl #16         @ as in A32, but for the condition (A6.3.18)
1:  mvn r5, r5, lsl #20
    lsrs r5, r5, #28                @ coprocessor 15, if there is one
    beq 3f

    @ The guest takes it (B1.9.3).
    TAKE_EXCEPTION r2, BANK_UND, ENTRY_UND
    COUNT CTX_USER_UNDEFINED
    @ Linux reads the instruction before it closes what is open to its user code, here alone: were that closed, the
    @ write of DACR that opened it, at the return from the last system call, would lose its bet.
    ldr r3, [r2, #PAGE_DACR]
    ldrd r0, r1, [sp, #CTX_DACR_PAIRS]          @ as in domain_access
    cmp r3, r0
    ldrdne r0, r1, [sp, #CTX_DACR_PAIRS + 8]
    cmpne r3, r0
    strdeq r0, r1, [sp, #CTX_KERNEL + VIEW_GUEST_DACR]
    streq r0, [r2, #PAGE_DACR_REAL]
    .if !BY_DOMAINS
    mcreq p15, 0, r1, c3, c0, 0     @ synchronised by the change of tables
    .endif
    ENTER_KERNEL r2, 8
3:  ldmia sp, {{r0-r7}}
    b user_undefined
    .ltorg
