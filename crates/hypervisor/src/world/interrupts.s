@ The guest's interrupts without leaving assembly: those of a timer that ticks while user code runs, and the kernel's
@ accesses to its interrupt controller.
@
@ The latter are the load from GICC_IAR that acknowledges an interrupt, the store to GICC_EOIR that ends it, and the
@ load by which a handler asks for one more (GICv2, IHI 0048B, 4.4.4 and 4.4.5). Each is a Data Abort, since devices are
@ not mapped. This is vm/trap/fast_abort.rs and spica_devices::gic once more, for accesses whose consequences Rust has
@ told before (struct GuestInterrupts): behind each of them no interrupt is signalled. The trust rule: where the access
@ comes from, where it leads and what it does are in Context. Of the vCPU page, DACR decides whether the guest may
@ access the page, and PAGE_PENDING is cleared; both are the guest's own business.

.section .text.world, "ax"
.arm

@ Goes to not_answered unless the abort is a translation fault of a read, or of a \write, of the register's address, by
@ the kernel in A32 and little-endian state, in a client domain, under the tables that Rust knows of. In: R1 = where
@ the site is from SP, less \from. Out: R2 = the vCPU page, R1 = the number of the core register. Uses R0, R3 to R7.
.macro ACCESS from, write
    mrs r0, spsr
    add r1, sp, r1
    ldr r2, [sp, #CTX_PAGE]
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
    bne store_once                  @ patches.s
    b end_interrupt
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

@ An IRQ while user code runs. In: SP = the Cpu, LR = the next instruction + 4 and SPSR as the exception left them. Out:
@ the block at CTX_INTERRUPT_ENTRY as kernel code, or user_irq with nothing changed. Saves R0 to R7 and uses them.
@
@ It is answered if it is the host timer's, by which the guest's timer ticks, all that the guest has done since Rust
@ last looked is to acknowledge the tick before, to set that timer anew, and to end the interrupt, and Rust does not
@ want to see it: its interrupt controller is where it was then, and the interrupt is offered to the kernel once more.
@ That is Vm::comes_round, and trap::interrupt::at_once. The host's timer is set to when Rust wants to see an interrupt
@ again; the guest sets it for its next tick (arm_timer).
    HANDLER fast, "ticks of the timer"
answer_user_irq:
    stmia sp, {{r0-r7}}
    ldr r0, [sp, #CTX_TICKS_ALLOWED]
    ldr r1, [sp, #CTX_INTERRUPT_ACKNOWLEDGED]
    ldr r3, [sp, #CTX_INTERRUPT_ENDED]
    ldr r4, [sp, #CTX_INTERRUPT_END_OF_ANSWER]
    ldr r6, [sp, #CTX_INTERRUPT_END_IF]
    mrs r5, spsr
    cmp r0, #0
    cmpne r1, #0
    beq no_tick
    cmn r3, #-NO_INTERRUPT
    beq no_tick
    eor r4, r4, r3
    and r5, r5, #NOT_USR
    orrs r4, r4, r5                 @ User mode
    sub r0, sp, #-(CTX_TIMER_WRITTEN)
    sub r0, r6, r0                  @ the timer, if it is one: 0 or TIMER_BYTES
    bicseq r4, r0, #TIMER_BYTES
    bne no_tick
    rsb r7, r0, #TIMER_BYTES
    add r6, sp, r0                  @ as in fast.s
    add r7, sp, r7
    ldr r0, [r6, #CTX_TIMER_CONTROL]
    ldr r3, [r6, #CTX_TIMER_WRITTEN]
    ldr r1, [r7, #CTX_TIMER_CONTROL]
    ldr r4, [r7, #CTX_TIMER_WRITTEN]
    cmp r0, #1                      @ enabled and not masked
    bne no_tick
    cmp r3, #0                      @ its line was low
    beq no_tick
    teq r1, #1                      @ the other one's may rise, or has fallen
    cmpne r4, #1
    bhs no_tick
    ldr r0, [sp, #CTX_SLOW_PATH]
    ldr r4, [sp, #CTX_INTERRUPT_ENTRY]
    cmp r0, #0
    bne no_tick
    cmp r4, #0
    beq no_tick
    WORDS CTX_ALARM_WAITING + WAITING_ADDRESS, CTX_ALARM_WAITING + WAITING_MASK, CTX_ALARM_WAITING + WAITING_VALUE
    sub r7, sp, #-(CTX_ALARM_WAITING)
    ldm r7, {{r0, r1, r3}}
    ldr r5, [sp, #CTX_ALARM_CONTROL]
    ldr r7, [sp, #CTX_ALARM_RUNNING]
    ldr r0, [r0]
    ldr r5, [r5]
    and r0, r0, r1
    cmp r0, r3                      @ the timer's
    tsteq r5, r7                    @ and it has stopped
    bne no_tick
    str r6, [sp, #CTX_SCRATCH]
    READ_COUNTER no_tick
    ldr r6, [sp, #CTX_SCRATCH]
    ldr r7, [sp, #CTX_TICKS_UNTIL]
    ldr r0, [r6, #CTX_TIMER_COMPARE]
    ldr r5, [r6, #CTX_TIMER_COMPARE + 4]
    ldr r2, [sp, #CTX_CLOCK + CLOCK_BASE]
    cmp r3, r0
    sbcs r4, r4, r5
    blo no_tick                     @ not yet
    add r2, r2, r1                  @ host time
    sub r7, r7, r2
    cmp r7, #1
    blt no_tick

    ldr r0, [sp, #CTX_ALARM_STATUS]
    ldr r1, [sp, #CTX_ALARM_LOWER]
    ldr r3, [sp, #CTX_ALARM_RUNNING]
    ldr r4, [sp, #CTX_ALARM_CONTROL]
    str r1, [r0]
    ldr r0, [sp, #CTX_ALARM_STOP]
    ldr r1, [sp, #CTX_ALARM_INTERVAL]
    ldr r5, [sp, #CTX_ALARM_START]
    cmp r3, #0
    streq r0, [r4]
    str r7, [r1]
    str r5, [r4]                    @ registers of one device: in this order (A3.8.3)

    ldr r2, [sp, #CTX_PAGE]
    ldr r1, [sp, #CTX_INTERRUPT_ENDED]
    mov r0, #0
    mov r3, #NO_INTERRUPT
    str r0, [sp, #CTX_INTERRUPT_ACKNOWLEDGED]
    str r3, [sp, #CTX_INTERRUPT_ENDED]
    str r1, [sp, #CTX_INTERRUPT_ANSWER]
    str r3, [r2, #PAGE_PENDING]
    str r0, [sp, #CTX_LEAVE]
    str r0, [sp, #CTX_TIMER_CHANGED]
    str r0, [r6, #CTX_TIMER_WRITTEN]
    mov r1, #1
    mov r3, #IRQ_WAITS
    str r1, [sp, #CTX_INTERRUPT_OFFERED]
    str r3, [sp, #CTX_SLOW_PATH]
    str sp, [sp, #CTX_TICKED]
    str sp, [sp, #CTX_TIMER_ARMED]  @ by this, and not for the guest's next deadline
    str sp, [sp, #CTX_ANSWERED]
    COUNT CTX_TICKS

    @ The guest takes it (B1.9.10).
    mrs r0, spsr
    ldr r4, [sp, #CTX_INTERRUPT_ENTRY]
    TAKE_EXCEPTION r2, BANK_IRQ, ENTRY_IRQ
    ENTER_KERNEL r2, 8
no_tick:
    ldmia sp, {{r0-r7}}
    b user_irq
    .ltorg
