@ Exceptions and the way back. Handlers count and return; that is all.

    .include "common.inc"
    .text

    vectors count_vectors, und=count_und, svc=count_svc, pabt=count_pabt, dabt=count_dabt
    .balign 32
count_und:
count_svc:
    add r11, r11, #1
    movs pc, lr
count_dabt:
    add r11, r11, #1
    subs pc, lr, #4
@ Nothing can be fetched there: goes on at R5.
count_pabt:
    add r11, r11, #1
    movs pc, r5

    @ The same for user code, which leaves by the exception that is not measured.
    vectors count_svc_vectors, und=leave, svc=count_svc
    vectors count_other_vectors, svc=leave, und=count_und, pabt=count_pabt, dabt=count_dabt

    .macro kernel name, label, count, body, init=""
    bench \name, \label, \count, events=\count, vectors=count_vectors
    .balign 64
\label:
    \init
9:
    .rept \count
    \body
    .endr
    again
    b finished
    .ltorg
    .endm

    .macro user name, label, count, vectors, body, end
    bench \name, \label, \count, events=\count, vectors=\vectors, loop=2
    .balign 64
\label:
    ldr r6, =ABSENT
    enter_user \label\()_user
    .ltorg
    to_user
    .balign 64
\label\()_user:
9:
    .rept \count
    \body
    .endr
    again
    \end
    end_user
    .endm

    user svc-user, svc_user, 8, count_svc_vectors, "svc #1", "udf #0"
    kernel svc-kernel, svc_kernel, 8, "svc #1"
    kernel data-abort, data_abort, 8, "ldr r0, [r6]", "ldr r6, =ABSENT"
    user data-abort-user, data_abort_user, 8, count_other_vectors, "ldr r0, [r6]", "svc #0"
    kernel prefetch-abort, prefetch_abort, 8, "add r5, pc, #0; bx r6", "ldr r6, =ABSENT"
    user prefetch-abort-user, prefetch_abort_user, 8, count_other_vectors, "add r5, pc, #0; bx r6", "svc #0"
    kernel undefined, undefined, 8, "udf #1"
    user undefined-user, undefined_user, 8, count_other_vectors, "udf #1", "svc #0"

@ Returns alone, from Supervisor mode to Supervisor mode.
    .macro back_to_svc
    mrs r0, cpsr
    msr spsr_cxsf, r0
    .endm
    simple exception-return-movs, 8, "add lr, pc, #0; movs pc, lr", init=back_to_svc

@ As Linux returns to interrupted kernel code: registers, PC and CPSR at once. SP is kept.
    bench exception-return-ldm, return_ldm, 8, check=return_check
return_ldm:
    back_to_svc
    ldr r6, =BUFFER
    mov r0, #1
    mov r1, #2
    mov r2, #3
    mov r3, #4
    stm r6, {r0-r3}
    mov r0, #0
9:
    .rept 8
    add r5, pc, #4
    str r5, [r6, #16]
    ldm r6, {r0-r3, pc}^
    .endr
    again
    b finished
return_check:
    mov r0, r3
    mov r1, #4
    bx lr

    bench exception-return-rfe, return_rfe, 8
return_rfe:
    ldr r6, =BUFFER
    mrs r0, cpsr
    str r0, [r6, #4]
9:
    .rept 8
    add r5, pc, #4
    str r5, [r6]
    rfeia r6
    .endr
    again
    b finished
    .ltorg
