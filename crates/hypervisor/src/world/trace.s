@ Vectors for as long as what guests do is recorded: they write a record of some traps that are answered in assembly,
@ and go on to the handlers. Other vectors are in force otherwise, so nothing is slower then. In: LR and SPSR as the
@ exception left them, which is what the handlers get, with all registers as they were.
@
@ Traps that Rust answers are recorded there (vm/traced.rs), which knows more of them and how long they took.

.section .vectors, "ax"
.arm
.balign 32
.global world_kernel_vectors_traced
    PART fast, "records of the timeline"
world_kernel_vectors_traced:
    b world_own_fault
    b kernel_undefined_vector
    b traced_kernel_call
    b kernel_prefetch_abort
    b kernel_data_abort
    b world_own_fault
    b kernel_irq
    b kernel_fiq

.balign 32
.global world_user_vectors_traced
world_user_vectors_traced:
    b world_own_fault
    b answer_user_undefined
    b traced_user_call
    b traced_prefetch_abort
    b traced_data_abort
    b world_own_fault
    b user_irq
    b user_fiq

@ The same for as long as only system calls are recorded, with all that they say.
.balign 32
.global world_kernel_vectors_calls
world_kernel_vectors_calls:
    b world_own_fault
    b kernel_undefined_vector
    b recorded_return
    b kernel_prefetch_abort
    b kernel_data_abort
    b world_own_fault
    b kernel_irq
    b kernel_fiq

.balign 32
.global world_user_vectors_calls
world_user_vectors_calls:
    b world_own_fault
    b answer_user_undefined
    b recorded_call
    b answer_prefetch_abort
    b answer_data_abort
    b world_own_fault
    b user_irq
    b user_fiq

.section .text.world, "ax"

@ Writes a record (struct Ring; Ring::push is the same in Rust). In: SP = the Cpu, R6 = its length, R7 = its argument.
@ Uses R0 to R5. A record that has no room is counted, and so is what comes until Rust has said how many were lost.
.macro RECORD kind
    WORDS RING_HEAD, RING_TAIL, RING_LOST, RING_MASK
    ldr r4, [sp, #CTX_TRACE]
    ldrd r0, r1, [r4, #RING_HEAD]
    ldrd r2, r3, [r4, #RING_LOST]
    sub r1, r0, r1
    rsbs r2, r2, #0                 @ C: none was lost
    cmphs r3, r1                    @ C: and there is room
    blo 8f
    and r2, r0, r3
    ldr r3, [r4, #RING_CLOCK]
    cmp r3, #0
    beq 7f
    ldr r1, [r3]
    ldr r3, [r4, #RING_COMPLEMENT]
    eor r1, r1, r3
6:  ldr r5, [r4, #RING_GUEST]
    ldr r3, [r4, #RING_FIRST]
    add r3, r3, r2, lsl #4
    add r0, r0, #1
    orr r5, r5, #\kind
    stm r3, {{r1, r5, r6, r7}}
    str r0, [r4, #RING_HEAD]
    b 9f
7:  isb
    mrrc p15, 1, r1, r3, c14        @ CNTVCT: the clock of cores that have it
    b 6b
8:  ldr r0, [r4, #RING_LOST]
    adds r0, r0, #1                 @ C: there are too many to be counted
    strcc r0, [r4, #RING_LOST]
9:
.endm

@ SVC of user code. To its handler, with nothing changed.
    HANDLER fast, "records of the timeline"
traced_user_call:
    stmia sp, {{r0-r7}}
    mov r6, lr
    RECORD RECORD_SYSTEM_CALL
    ldmia sp, {{r0-r7}}
    b user_supervisor_call

@ SVC of translated code: returns to user code and switches of address spaces. To the handler, with nothing changed.
    HANDLER fast, "records of the timeline"
traced_kernel_call:
    stmia sp, {{r0-r7}}
    mrs r0, spsr
    ldr r2, [sp, #CTX_PAGE]
    tst r0, #PSR_T | NOT_USR        @ as in kernel_supervisor_call
    ldrbeq r1, [lr, #-4]
    bne 1f
    ldr r7, [r2, #PAGE_TARGET]
    mov r6, #0
    cmp r1, #SVC_EXCEPTION_RETURN
    cmpne r1, #SVC_LENT_EXCEPTION_RETURN
    cmpne r1, #SVC_LENT_VECTOR_RETURN
    beq 2f
    cmp r1, #SVC_TTBR0
    beq 3f
    cmp r1, #SVC_CONTEXTIDR
    beq 4f
1:  ldmia sp, {{r0-r7}}
    b kernel_supervisor_call
2:  ldr r0, [r2, #PAGE_SPSR]
    sub r1, sp, #-(CTX_SCRATCH)
    and r0, r0, #PSR_MODE
    cmp r0, #MODE_USR
    bne 1b
    stmia r1, {{sp}}^               @ that of the kernel, which runs in User mode
    ldr r6, [r1]
    RECORD RECORD_EXCEPTION_RETURN
    b 1b
3:  RECORD RECORD_TTBR0
    b 1b
4:  RECORD RECORD_CONTEXTIDR
    b 1b

@ Aborts of user code. To their handlers, with nothing changed.
    HANDLER fast, "records of the timeline"
traced_data_abort:
    stmia sp, {{r0-r7}}
    mrc p15, 0, r6, c5, c0, 0       @ DFSR
    mrc p15, 0, r7, c6, c0, 0       @ DFAR
    RECORD RECORD_USER_DATA_ABORT
    ldmia sp, {{r0-r7}}
    b answer_data_abort

    HANDLER fast, "records of the timeline"
traced_prefetch_abort:
    stmia sp, {{r0-r7}}
    mrc p15, 0, r6, c5, c0, 1       @ IFSR
    mrc p15, 0, r7, c6, c0, 2       @ IFAR
    RECORD RECORD_USER_PREFETCH_ABORT
    ldmia sp, {{r0-r7}}
    b answer_prefetch_abort

@ SVC of user code, with R0 to R6. To its handler, with nothing changed.
    HANDLER fast, "records of system calls"
recorded_call:
    stmia sp, {{r0-r7}}
    mov r6, lr
    RECORD RECORD_SYSTEM_CALL
    ldrd r6, r7, [sp]
    RECORD RECORD_CALL_R0
    ldrd r6, r7, [sp, #8]
    RECORD RECORD_CALL_R2
    ldrd r6, r7, [sp, #16]
    RECORD RECORD_CALL_R4
    ldr r6, [sp, #24]
    mov r7, #0
    RECORD RECORD_CALL_R6
    ldmia sp, {{r0-r7}}
    b user_supervisor_call

@ SVC of translated code: returns to user code, with R0 and R1. To the handler, with nothing changed.
    HANDLER fast, "records of system calls"
recorded_return:
    stmia sp, {{r0-r7}}
    mrs r0, spsr
    ldr r2, [sp, #CTX_PAGE]
    tst r0, #PSR_T | NOT_USR        @ as in kernel_supervisor_call
    ldrbeq r1, [lr, #-4]
    bne 1f
    cmp r1, #SVC_EXCEPTION_RETURN
    cmpne r1, #SVC_LENT_EXCEPTION_RETURN
    cmpne r1, #SVC_LENT_VECTOR_RETURN
    bne 1f
    ldr r0, [r2, #PAGE_SPSR]
    ldr r7, [r2, #PAGE_TARGET]
    and r0, r0, #PSR_MODE
    cmp r0, #MODE_USR
    bne 1f
    sub r1, sp, #-(CTX_SCRATCH)
    stmia r1, {{sp}}^               @ that of the kernel, which runs in User mode
    ldr r6, [r1]
    RECORD RECORD_EXCEPTION_RETURN
    ldrd r6, r7, [sp]
    RECORD RECORD_RETURN_R0
1:  ldmia sp, {{r0-r7}}
    b kernel_supervisor_call
