@ Accesses of the guest's kernel to its interrupt controller that are answered without leaving assembly: the load from
@ GICC_IAR that acknowledges an interrupt, the store to GICC_EOIR that ends it, and the load by which a handler asks
@ for one more (GICv2, IHI 0048B, 4.4.4 and 4.4.5). Each is a Data Abort, since devices are not mapped.
@
@ This is vm/trap/fast_abort.rs and spica_devices::gic once more, for accesses whose consequences Rust has told before
@ (struct GuestInterrupts): behind each of them no interrupt is signalled. The trust rule: where the access comes from,
@ where it leads and what it does are in Context. Of the vCPU page, DACR decides whether the guest may access the page,
@ and PAGE_PENDING is cleared; both are the guest's own business.

.section .text.world, "ax"
.arm

@ Goes to not_answered unless the abort is a translation fault of a read, or of a \write, of the register's address, by
@ the kernel in A32 and little-endian state, in a client domain, under the tables that Rust knows of. In: R1 = where
@ the site is from SP, less \from. Out: R2 = the vCPU page, R1 = the number of the core register. Uses R0, R3 to R7.
.macro ACCESS from, write
    mrs r0, spsr
    add r1, sp, r1
    ldr r2, [sp, #CPU_PAGE]
    mrc p15, 0, r3, c5, c0, 0       @ DFSR
    tst r0, #NOT_USR                @ User mode
    tsteq r0, #PSR_ET
    bne not_answered
    mrc p15, 0, r4, c6, c0, 0       @ DFAR
    ldr r5, [r1, #\from + SITE_VA]
    ldr r6, [r1, #\from + SITE_DOMAIN_SHIFT]
    ldr r0, [r2, #PAGE_DACR]
    ldr r7, [sp, #CTX_INTERRUPT_OFFERED]
    eor r3, r3, #5                  @ 0b00101, 0b00111 (table B3-23)
    .if \write
    eor r3, r3, #0x800              @ WnR
    .endif
    lsr r0, r0, r6
    ldr r1, [r1, #\from + SITE_REGISTER]
    and r0, r0, #3
    tst r3, #0x0d
    tsteq r3, #0xc00
    cmpeq r4, r5
    cmpeq r0, #1                    @ client
    cmpeq r7, #1
    ldreq r7, [sp, #CTX_SPACE_SWITCHED]
    cmpeq r7, #0
    bne not_answered
.endm

@ A Data Abort of translated kernel code. In: SP = the Cpu, LR = the instruction + 8 and SPSR as the abort left them.
@ Out: behind the instruction, or kernel_data_abort with nothing changed. Saves R0 to R7 and uses them.
    HANDLER fast, "the interrupt controller"
answer_kernel_data_abort:
    stmia sp, {{r0-r7}}
    ldr r0, [sp, #CTX_IAR_PC]
    ldr r3, [sp, #CTX_OTHER_IAR_PC]
    ldr r4, [sp, #CTX_EOIR_PC]
    sub r2, lr, #8
    mov r1, #0
    cmp r2, r0
    cmpne r2, r3
    beq acknowledge
    cmp r2, r4
    beq end_interrupt
not_answered:
    ldmia sp, {{r0-r7}}
    b kernel_data_abort

@ The same, at a place that loads from GICC_IAR. What the guest has written to its timers since Rust ran may have
@ lowered the line: then the interrupt that waited does no longer. Saves R8 to R12, too, one of which it may change.
acknowledge:
    cmp r2, r0
    movne r1, #SITE_BYTES
    ACCESS CTX_IAR_PC, 0
    ldr r5, [sp, #CTX_INTERRUPT_ANSWER]
    movw r6, #SPURIOUS
    cmp r5, r6
    beq 1f
    ldr r3, [sp, #CTX_TIMER_CHANGED]
    ldr r4, [sp, #CTX_INTERRUPT_END_OF_ANSWER]
    cmp r3, #0
    bne not_answered
    str r6, [sp, #CTX_INTERRUPT_ANSWER]
    str r4, [sp, #CTX_INTERRUPT_END]
    str sp, [sp, #CTX_INTERRUPT_ACKNOWLEDGED]
    str sp, [sp, #CTX_ANSWERED]
    str r3, [r2, #PAGE_PENDING]
    str r3, [sp, #CTX_SLOW_PATH]    @ it was 0 or IRQ_WAITS when the answer was offered
    COUNTS "trap.mmio"
1:  add r0, sp, #4 * 8
    stmia r0, {{r8-r12}}
    str r5, [sp, r1, lsl #2]
    COUNT CTX_INTERRUPT_ACCESSES
    ldmia sp, {{r0-r12}}
    subs pc, lr, #4

@ The same, at the place that stores to GICC_EOIR. A line that the guest must have lowered meanwhile is that of a timer
@ that it must have written to.
end_interrupt:
    ACCESS CTX_EOIR_PC, 1
    add r0, sp, #4 * 8
    stmia r0, {{r8-r12}}
    ldr r5, [sp, r1, lsl #2]
    ldr r6, [sp, #CTX_INTERRUPT_END]
    ldr r3, [sp, #CTX_INTERRUPT_END_IF]
    cmp r5, r6
    bne not_answered
    cmn r6, #-NO_INTERRUPT
    beq not_answered
    ldr r3, [r3]
    mov r4, #NO_INTERRUPT
    cmp r3, #0
    beq not_answered
    str r4, [sp, #CTX_INTERRUPT_END]
    str r6, [sp, #CTX_INTERRUPT_ENDED]
    str sp, [sp, #CTX_ANSWERED]
    COUNTS "trap.mmio"
    COUNT CTX_INTERRUPT_ACCESSES
    ldmia sp, {{r0-r7}}
    subs pc, lr, #4
    .ltorg
