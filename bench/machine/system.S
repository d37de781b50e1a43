@ System registers, modes, masks.

    .include "common.inc"
    .text

@ Reads are checked against what was written, or against another read.
    .macro check_read label, body
\label:
    mov r2, r0
    \body
    mov r1, r0
    mov r0, r2
    bx lr
    .endm
@ Writes are checked by reading back: R1 was written last.
    .macro check_write label, body
\label:
    \body
    bx lr
    .endm

    .macro read name, label, instruction
    check_read \label, "\instruction"
    simple \name, 16, "\instruction", check=\label
    .endm
    .macro write name, label, read, write, init
    check_write \label, "\read"
    simple \name, 8, "\write", init="\init", check=\label, ops=16
    .endm

    read cp15-midr-read, midr_check, "mrc p15, 0, r0, c0, c0, 0"
    read cp15-ctr-read, ctr_check, "mrc p15, 0, r0, c0, c0, 1"
    read cp15-sctlr-read, sctlr_check, "mrc p15, 0, r0, c1, c0, 0"
    read cp15-ttbr0-read, ttbr0_check, "mrc p15, 0, r0, c2, c0, 0"
    read cp15-dacr-read, dacr_check, "mrc p15, 0, r0, c3, c0, 0"
    read cp15-dfsr-read, dfsr_check, "mrc p15, 0, r0, c5, c0, 0"
    read cp15-tpidrprw-read, tpidrprw_check, "mrc p15, 0, r0, c13, c0, 4"
    read cp15-tpidruro-read, tpidruro_check, "mrc p15, 0, r0, c13, c0, 3"

    @ The same value again, as Linux does at each exception.
    write cp15-sctlr-write, sctlr_written, "mrc p15, 0, r0, c1, c0, 0", "mcr p15, 0, r1, c1, c0, 0; mcr p15, 0, r1, c1, c0, 0", "mrc p15, 0, r1, c1, c0, 0"
    @ The user's domain closed and opened.
    write cp15-dacr-write, dacr_written, "mrc p15, 0, r0, c3, c0, 0", "mcr p15, 0, r2, c3, c0, 0; mcr p15, 0, r1, c3, c0, 0", "mov r2, #DACR_CLOSED; mov r1, #DACR_OPEN"
    write cp15-contextidr-write, contextidr_written, "mrc p15, 0, r0, c13, c0, 1", "mcr p15, 0, r2, c13, c0, 1; mcr p15, 0, r1, c13, c0, 1", "mov r2, #3; mov r1, #ASID_A"
    write cp15-tpidrprw-write, tpidrprw_written, "mrc p15, 0, r0, c13, c0, 4", "mcr p15, 0, r2, c13, c0, 4; mcr p15, 0, r1, c13, c0, 4", "mov r2, #3; mov r1, #5"
    write cp15-tpidruro-write, tpidruro_written, "mrc p15, 0, r0, c13, c0, 3", "mcr p15, 0, r2, c13, c0, 3; mcr p15, 0, r1, c13, c0, 3", "mov r2, #3; mov r1, #5"
    write cp15-dfar-write, dfar_written, "mrc p15, 0, r0, c6, c0, 0", "mcr p15, 0, r2, c6, c0, 0; mcr p15, 0, r1, c6, c0, 0", "mov r2, #3; mov r1, #5"

@ Modes. In the end, the last mode that was changed to is looked into for what the loop left in its SP.
    bench mode-cps, mode_cps, 16, check=mode_sys_check
mode_cps:
9:
    .rept 8
    cps #MODE_SYS
    cps #MODE_SVC
    .endr
    again
    cps #MODE_SYS
    mov sp, r10
    cps #MODE_SVC
    b finished
mode_sys_check:
    cps #MODE_SYS
    mov r0, sp
    cps #MODE_SVC
    mov r1, r10
    bx lr

    bench mode-msr, mode_msr, 16, check=mode_irq_check
mode_msr:
    mov r0, #MODE_IRQ | 0xc0
    mov r1, #MODE_SVC | 0xc0
9:
    .rept 8
    msr cpsr_c, r0
    msr cpsr_c, r1
    .endr
    again
    msr cpsr_c, r0
    mov sp, r10
    msr cpsr_c, r1
    b finished
mode_irq_check:
    cps #MODE_IRQ
    mov r0, sp
    cps #MODE_SVC
    mov r1, r10
    bx lr

@ Nothing is pending.
mask_check:
    mrs r0, cpsr
    and r0, r0, #0x80
    mov r1, #0x80
    bx lr
    simple mask-cps, 8, "cpsie i; cpsid i", check=mask_check, ops=16
    @ Linux's local_irq_save and local_irq_restore.
    simple mask-save-restore, 8, "mrs r0, cpsr; cpsid i; msr cpsr_c, r0", init="cpsie i", ops=8
    simple mrs-cpsr, 16, "mrs r0, cpsr", check=mrs_cpsr_check
mrs_cpsr_check:
    and r0, r0, #0x9f
    mov r1, #0x80 | MODE_SVC
    bx lr
    simple msr-cpsr-flags, 16, "msr cpsr_f, r1", init="mov r1, #0x60000000"
    check_read mrs_spsr_check, "mrs r0, spsr"
    simple mrs-spsr, 16, "mrs r0, spsr", check=mrs_spsr_check
    simple msr-spsr, 16, "msr spsr_cxsf, r1", init="mrs r1, cpsr", check=msr_spsr_check
msr_spsr_check:
    mrs r0, spsr
    bx lr

@ The user's registers.
    simple ldm-user, 8, "ldm r6, {sp, lr}^; nop", init="ldr r6, =BUFFER; mov r0, #7; mov r1, #8; stm r6, {r0, r1}", check=ldm_user_check
ldm_user_check:
    cps #MODE_SYS
    mov r0, lr
    cps #MODE_SVC
    mov r1, #8
    bx lr
    simple stm-user, 8, "stm r6, {sp, lr}^; nop", init="ldr r6, =BUFFER", check=stm_user_check
stm_user_check:
    ldr r0, [r6]
    ldr r1, =STACK_SYS
    bx lr
    .ltorg

@ The user's memory, with the user's permissions.
    simple ldrt, 16, "ldrt r0, [r6]", init="ldr r6, =USER_DATA; mov r1, #9; str r1, [r6]; mov r0, #0", check=ldrt_check
ldrt_check:
    mov r1, #9
    bx lr
    simple strt, 16, "strt r1, [r6]", init="ldr r6, =USER_DATA; mov r1, #11", check=strt_check
strt_check:
    ldr r0, =USER_DATA
    ldr r0, [r0]
    mov r1, #11
    bx lr
    .ltorg
    @ Linux's get_user, where the kernel opens the user's domain for it.
    simple user-access, 2, "mrc p15, 0, r3, c3, c0, 0; mcr p15, 0, r2, c3, c0, 0; isb; ldrt r0, [r6]; mcr p15, 0, r3, c3, c0, 0; isb", init="mov r2, #DACR_OPEN; mcr p15, 0, r2, c3, c0, 0; isb; ldr r6, =USER_DATA; mov r1, #12; str r1, [r6]; mov r0, #DACR_CLOSED; mcr p15, 0, r0, c3, c0, 0; isb; mov r0, #0", check=user_access_check
user_access_check:
    mov r1, #12
    bx lr

@ Devices.
    simple mmio-uart-status, 8, "ldr r0, [r6]", init="ldr r6, =UART_STATUS"
    simple mmio-controller-read, 8, "ldr r0, [r6]", init="ldr r6, =CONTROLLER_STATUS"
    simple mmio-write, 8, "str r1, [r6]", init="ldr r6, =UART_WRITABLE; mov r1, #0x12", check=mmio_check
mmio_check:
    ldr r0, =UART_WRITABLE
    ldr r0, [r0]
    mov r1, #0x12
    bx lr
    .ltorg

@ The clock itself: the platform's, so not the same instruction on a board and under Spica.
    simple clock-read, 4, "counter r0", check=clock_check
clock_check:
    mov r2, r0
    counter r1
    mov r0, #1
    cmp r1, r2
    mov r1, #1
    movlo r0, #0
    bx lr
    .ltorg
