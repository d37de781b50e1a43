@ From the boot loader to the kernel half, through all categories, and what they have in common.
@
@ All that is to survive a category is in memory, none of it in registers: so the next one can begin from anywhere, also
@ from an exception that nobody expected.

    .include "common.inc"

    @ What a category is measured for, in ticks. How many iterations its first run has. Those of the empty loop, by
    @ which the others are corrected.
    .equ TARGET, TARGET_US * 100000 / TICK_NUM * TICK_DEN
    .equ FEW, 4
    .equ LOOPS, 1 << 24

    .section .head, "ax"
    .global _start
_start:
    .rept 8
    nop
    .endr
    b start
    .word 0x016f2818                @ a zImage
    .word 0                         @ that can be anywhere, 64 KiB behind the start of a megabyte
    .word image_end - _start
    .word 0x04030201                @ little-endian

@ MMU and caches off, at the physical address. R9: the start of memory.
start:
    msr cpsr_c, #0xd3
    adr r9, _start
    sub r9, r9, #0x10000
    mov r0, #0
    mcr p15, 0, r0, c7, c5, 0       @ ICIALLU
    mcr p15, 0, r0, c7, c5, 6       @ BPIALL
    mcr p15, 0, r0, c8, c7, 0       @ TLBIALL

    @ Tables: all zero, then what is mapped.
    add r0, r9, #0x4000
    add r1, r9, #0x10000
    mov r2, #0
1:  str r2, [r0], #4
    cmp r0, r1
    blo 1b
    add r8, r9, #0x4000
    ldr r1, =SECTION
    orr r1, r1, r9
    str r1, [r8, r9, lsr #18]       @ one to one, for the moment when the MMU goes on
    add r2, r8, #(KERNEL >> 18)
    mov r3, #16
1:  str r1, [r2], #4
    add r1, r1, #0x100000
    subs r3, r3, #1
    bne 1b
    ldr r2, =(DEVICES_0 >> 18)
    ldr r1, =DEVICES_0_AT + DEVICE
    str r1, [r8, r2]
    ldr r2, =(DEVICES_1 >> 18)
    ldr r1, =DEVICES_1_AT + DEVICE
    str r1, [r8, r2]
    ldr r1, =(USER_TABLE - KERNEL) + (USER_DOMAIN << 5) + 1
    add r1, r1, r9
    str r1, [r8]
    ldr r1, =(WINDOW_TABLE - KERNEL) + 1
    add r1, r1, r9
    ldr r2, =(WINDOW >> 18)
    add r2, r2, r8
    mov r3, #WINDOW_PAGES / 256
1:  str r1, [r2], #4
    add r1, r1, #0x400
    subs r3, r3, #1
    bne 1b

    ldr r0, =bss_end - KERNEL
    add r0, r0, r9
    ldr r1, =0x100000
    add r1, r1, r9
    mov r2, #0
1:  str r2, [r1], #4
    cmp r1, r0
    blo 1b

    add r0, r8, #TTBR_FLAGS
    mcr p15, 0, r0, c2, c0, 0
    mov r1, #0
    mcr p15, 0, r1, c2, c0, 2       @ TTBCR
    mcr p15, 0, r1, c13, c0, 1      @ CONTEXTIDR
    mov r1, #DACR_OPEN
    mcr p15, 0, r1, c3, c0, 0
    dsb
    mrc p15, 0, r1, c1, c0, 0
    ldr r2, =0x72002002             @ big-endian, T32, AFE, TRE, high vectors, alignment checks: off
    bic r1, r1, r2
    ldr r2, =0x1805                 @ MMU, caches, branch prediction: on
    orr r1, r1, r2
    ldr r3, =kernel
    isb
    mcr p15, 0, r1, c1, c0, 0
    isb
    bx r3
    .ltorg

    .text
kernel:
    ldr sp, =STACK_SVC
    ldr r0, =memory
    str r9, [r0]
    ldr r0, =sctlr
    str r1, [r0]
    @ No longer one to one.
    ldr r0, =TABLE
    mov r1, #0
    str r1, [r0, r9, lsr #18]!
    mcr p15, 0, r0, c7, c10, 1      @ DCCMVAC: the walker may not look into the cache
    bl user_tables
    bl window_tables
    counter_start
    controller_start
    bl print_inline
    .asciz "Machine operations on "
    .balign 4
    ldr r0, =platform
    bl print_string
    bl print_inline
    .asciz "\n"
    .balign 4
    ldr r0, =benches
    ldr r1, =current
    str r0, [r1]

run:
    ldr sp, =STACK_SVC
    bl reset
    ldr r7, =current
    ldr r7, [r7]
    ldr r0, =benches_end
    cmp r7, r0
    bhs all_done
    ldr r1, [r7, #BENCH_SETUP]
    cmp r1, #0
    beq 1f
    blx r1
    cmp r0, #0
    beq 1f
    mov r8, r0
    bl print_missing
    mov r0, r8
    bl print_string
    b next
1:  ldr r7, =current
    ldr r7, [r7]
    ldr r0, [r7, #BENCH_FIXED]
    cmp r0, #0
    moveq r0, #FEW
    ldr r2, =warm
    mov r1, #0
    str r1, [r2]
    ldr r2, =iterations
    str r0, [r2]
once:
    ldr r0, [r7, #BENCH_VECTORS]
    cmp r0, #0
    mcrne p15, 0, r0, c12, c0, 0
    ldr r4, =iterations
    ldr r4, [r4]
    ldr r8, [r7, #BENCH_RUN]
    mov r10, #0
    mov r11, #0
    mov r9, #0
    dsb
    isb
    counter r0
    ldr r1, =begun
    str r0, [r1]
    bx r8

@ Where every category ends, in any mode.
    .global leave, finished
leave:
    cpsid aif, #MODE_SVC
finished:
    ldr r12, =registers
    stm r12, {r0-r11}
    counter r0
    ldr r1, =ended
    str r0, [r1]
    ldr sp, =STACK_SVC
    ldr r7, =current
    ldr r7, [r7]

    ldr r2, =iterations
    ldr r2, [r2]
    ldr r3, [r7, #BENCH_LOOP]
    cmp r3, #0
    beq 1f
    cmp r2, r10
    beq 1f
    mov r0, r10
    mov r1, r2
    bl print_wrong
    .asciz "iterations"
    .balign 4
    b next
1:  ldr r3, [r7, #BENCH_EVENTS]
    mul r1, r2, r3
    cmp r1, #0
    beq 1f
    cmp r1, r11
    beq 1f
    mov r0, r11
    bl print_wrong
    .asciz "events"
    .balign 4
    b next
    @ Was it long enough? The first run never is: it warms up. A run that was short is no basis for a calculation: it
    @ may have been mostly warming up, too.
1:  ldr r3, [r7, #BENCH_FIXED]
    cmp r3, #0
    bne 2f
    ldr r3, =warm
    ldr r5, [r3]
    mov r1, #1
    str r1, [r3]
    mov r4, r2
    ldr r0, =begun
    ldr r0, [r0]
    ldr r2, =ended
    ldr r2, [r2]
    sub r2, r2, r0                  @ R2: ticks of R4 iterations
    ldr r0, =TARGET / 4 * 3
    cmp r2, r0
    blo 1f
    cmp r5, #0
    beq once
    b 2f
1:  ldr r0, =TARGET / 16
    cmp r2, r0
    lsllo r4, r4, #2
    blo 1f
    ldr r0, =TARGET
    umull r0, r1, r4, r0
    bl divide
    add r4, r0, #1
1:  ldr r3, =iterations
    str r4, [r3]
    b once
2:  ldr r3, [r7, #BENCH_CHECK]
    cmp r3, #0
    beq 1f
    ldr r12, =registers
    mov lr, r3
    ldm r12, {r0-r11}
    blx lr
    cmp r0, r1
    beq 1f
    bl print_wrong
    .asciz "as the result"
    .balign 4
    b next
1:  bl reset
    bl report
next:
    bl print_inline
    .asciz "\n"
    .balign 4
    ldr r7, =current
    ldr r0, [r7]
    add r0, r0, #BENCH_SIZE
    str r0, [r7]
    b run

all_done:
    bl print_inline
    .asciz "@bench done\n"
    .balign 4
    platform_end
    .ltorg

@ The state that every category finds: the first address space, Supervisor mode, everything masked, timer off. Keeps R4
@ to R11.
reset:
    cpsid aif, #MODE_SVC
    push {r4-r6, lr}
    ldr r0, =sctlr
    ldr r0, [r0]
    mcr p15, 0, r0, c1, c0, 0
    ldr r0, =default_vectors
    mcr p15, 0, r0, c12, c0, 0
    mov r0, #DACR_OPEN
    mcr p15, 0, r0, c3, c0, 0
    isb
    mov r0, #0
    mcr p15, 0, r0, c13, c0, 1
    isb
    ldr r0, =memory
    ldr r0, [r0]
    add r0, r0, #(TABLE - KERNEL)
    add r0, r0, #TTBR_FLAGS
    mcr p15, 0, r0, c2, c0, 0
    isb
    mov r0, #ASID_A
    mcr p15, 0, r0, c13, c0, 1
    isb
    flush_tlb
    mov r0, #0
    mcr p15, 0, r0, c7, c5, 0
    dsb
    isb
    clrex
    timer_stop
    ldr r0, =UART_UNMASK
    mov r1, #0
    str r1, [r0]
    cps #MODE_SYS
    ldr sp, =STACK_SYS
    cps #MODE_SVC
    pop {r4-r6, pc}
    .ltorg

@ User pages: code and data.
user_tables:
    ldr r2, =USER_TABLE
    ldr r0, =user_start - KERNEL
    add r0, r0, r9
    ldr r1, =PAGE_USER_TEXT
    orr r0, r0, r1
    str r0, [r2, #(USER_TEXT >> 10)]
    add r0, r0, #0x1000
    str r0, [r2, #(USER_TEXT >> 10) + 4]
    ldr r0, =USER_PAGE - KERNEL
    add r0, r0, r9
    ldr r1, =PAGE_USER_DATA
    orr r0, r0, r1
    str r0, [r2, #(USER_DATA >> 10)]
    mcr p15, 0, r2, c7, c10, 1
    add r2, r2, #(USER_DATA >> 10)
    mcr p15, 0, r2, c7, c10, 1
    dsb
    bx lr

@ The window: page N shows page N of PAGES. The first word of each holds 1. A `setup`.
    .global window_tables
window_tables:
    ldr r0, =WINDOW_TABLE
    ldr r1, =memory
    ldr r1, [r1]
    ldr r2, =PAGES - KERNEL + PAGE_KERNEL
    add r1, r1, r2
    ldr r2, =PAGES
    ldr r3, =WINDOW_PAGES
    mov r12, #1
1:  str r1, [r0]
    mcr p15, 0, r0, c7, c10, 1      @ DCCMVAC
    str r12, [r2]
    add r0, r0, #4
    add r1, r1, #0x1000
    add r2, r2, #0x1000
    subs r3, r3, #1
    bne 1b
    flush_tlb
    mov r0, #0
    bx lr
    .ltorg

@ Exceptions that nobody expects. R0 to R12 are free: what ran is not gone on with.
    .macro unexpected label, name
    .global \label
\label:
    mov r6, lr
    mrs r7, spsr
    adr r5, 9003f
    b unexpected
9003:
    .asciz "\name"
    .balign 4
    .endm
    unexpected unexpected_reset, "reset"
    unexpected unexpected_und, "undefined instruction"
    unexpected unexpected_svc, "supervisor call"
    unexpected unexpected_pabt, "prefetch abort"
    unexpected unexpected_dabt, "data abort"
    unexpected unexpected_irq, "interrupt"
    unexpected unexpected_fiq, "fast interrupt"
unexpected:
    cpsid aif, #MODE_SVC
    ldr sp, =STACK_SVC
    ldr r4, =failing
    ldr r0, [r4]
    cmp r0, #0
    bne all_done                    @ an exception of this very code: nothing can be trusted
    mov r0, #1
    str r0, [r4]
    bl reset
    bl print_missing
    bl print_inline
    .asciz "unexpected exception: "
    .balign 4
    mov r0, r5
    bl print_string
    bl print_inline
    .asciz ", return address "
    .balign 4
    mov r0, r6
    bl print_hex
    bl print_inline
    .asciz ", SPSR "
    .balign 4
    mov r0, r7
    bl print_hex
    bl print_inline
    .asciz ", DFSR "
    .balign 4
    mrc p15, 0, r0, c5, c0, 0
    bl print_hex
    bl print_inline
    .asciz ", DFAR "
    .balign 4
    mrc p15, 0, r0, c6, c0, 0
    bl print_hex
    bl print_inline
    .asciz ", IFSR "
    .balign 4
    mrc p15, 0, r0, c5, c0, 1
    bl print_hex
    mov r0, #0
    str r0, [r4]
    b next

    .global default_vectors
    vectors default_vectors

@ Says what was measured. Ticks of the loops are those of the categories `loop` and `user-loop`, per iteration.
report:
    push {r4-r11, lr}
    ldr r7, =current
    ldr r7, [r7]
    ldr r0, =begun
    ldr r4, [r0]
    ldr r0, =ended
    ldr r0, [r0]
    sub r4, r0, r4                  @ R4: all ticks
    ldr r0, =registers
    ldr r5, [r0, #40]               @ R10: iterations of the loop
    ldr r1, =benches
    ldr r6, =loop_ticks
    cmp r7, r1
    streq r4, [r6]
    add r1, r1, #BENCH_SIZE
    cmp r7, r1
    streq r4, [r6, #4]
    ldr r3, [r7, #BENCH_LOOP]
    cmp r3, #2
    addeq r6, r6, #4
    ldr r6, [r6]
    umull r0, r1, r5, r6
    ldr r2, =LOOPS
    bl divide
    mov r5, r0                      @ R5: the loop's ticks
    ldr r6, =iterations
    ldr r6, [r6]
    ldr r0, [r7, #BENCH_OPS]
    mul r6, r6, r0                  @ R6: operations

    ldr r0, [r7, #BENCH_NAME]
    bl print_name
    bl print_inline
    .asciz ": "
    .balign 4
    mov r0, r6
    bl print_decimal
    bl print_inline
    .asciz " operations, "
    .balign 4
    mov r0, r4
    bl print_ns
    bl print_inline
    .asciz " ns each, of which the loop has "
    .balign 4
    mov r0, r5
    bl print_ns
    bl print_inline
    .asciz "\n"
    .balign 4
    @ A loop is its own operation. Any other has what is left without the loop, where that is anything: the empty loop's
    @ branch may be the dearer one.
    ldr r1, =benches + BENCH_SIZE
    cmp r7, r1
    bls 1f
    subs r4, r4, r5
    blo 2f
1:  bl print_inline
    .asciz "@bench "
    .balign 4
    ldr r0, [r7, #BENCH_NAME]
    bl print_name
    bl print_inline
    .asciz " ns "
    .balign 4
    mov r0, r4
    bl print_ns
    pop {r4-r11, pc}
2:  bl print_missing
    bl print_inline
    .asciz "the empty loop takes longer than this with its loop"
    .balign 4
    pop {r4-r11, pc}

@ R0 ticks for R6 operations, as nanoseconds per operation with two decimals.
print_ns:
    push {r4, lr}
    ldr r1, =TICK_NUM
    umull r0, r1, r0, r1
    ldr r2, =TICK_DEN
    mul r2, r2, r6
    adds r0, r0, r2, lsr #1         @ to the nearest
    adc r1, r1, #0
    bl divide
    mov r1, #0
    mov r2, #100
    bl divide
    mov r4, r3
    bl print_decimal
    mov r0, #'.'
    bl put
    cmp r4, #10
    movlo r0, #'0'
    bllo put
    mov r0, r4
    bl print_decimal
    pop {r4, pc}

@ R1:R0 by R2, which is below 2^31: the quotient in R1:R0, the remainder in R3.
divide:
    mov r3, #0
    mov r12, #64
1:  adds r0, r0, r0
    adcs r1, r1, r1
    adc r3, r3, r3
    cmp r3, r2
    subhs r3, r3, r2
    addhs r0, r0, #1
    subs r12, r12, #1
    bne 1b
    bx lr

@ The printing routines keep R4 to R11.
put:
    push {r1, r2}
    uart_put
    pop {r1, r2}
    bx lr

print_string:
    push {r4, lr}
    mov r4, r0
1:  ldrb r0, [r4], #1
    cmp r0, #0
    popeq {r4, pc}
    bl put
    b 1b

@ The string behind the call. Keeps R0 and R1, too.
print_inline:
    push {r0, r1, r4, r5}
    mov r4, lr
1:  ldrb r0, [r4], #1
    cmp r0, #0
    beq 2f
    bl put
    b 1b
2:  add lr, r4, #3
    bic lr, lr, #3
    pop {r0, r1, r4, r5}
    bx lr

print_name:
    push {r4, lr}
    mov r4, r0
    bl print_inline
    .asciz "machine."
    .balign 4
    mov r0, r4
    bl print_string
    pop {r4, pc}

@ The start of the line that says why a category has no figure.
print_missing:
    push {r4, lr}
    bl print_inline
    .asciz "@bench "
    .balign 4
    ldr r0, =current
    ldr r0, [r0]
    ldr r0, [r0, #BENCH_NAME]
    bl print_name
    bl print_inline
    .asciz " missing "
    .balign 4
    pop {r4, pc}

@ That R0 is not R1, in words that follow the call.
print_wrong:
    push {r4-r6, lr}
    mov r4, r0
    mov r5, r1
    bl print_missing
    bl print_inline
    .asciz "it has "
    .balign 4
    mov r0, r4
    bl print_hex
    bl print_inline
    .asciz " instead of "
    .balign 4
    mov r0, r5
    bl print_hex
    mov r0, #' '
    bl put
    pop {r4-r6, lr}
    b print_inline

print_hex:
    push {r4, r5, lr}
    mov r4, r0
    mov r5, #8
    bl print_inline
    .asciz "0x"
    .balign 4
1:  ror r4, r4, #28
    and r0, r4, #15
    cmp r0, #10
    addlo r0, r0, #'0'
    addhs r0, r0, #'a' - 10
    bl put
    subs r5, r5, #1
    bne 1b
    pop {r4, r5, pc}

print_decimal:
    push {r4, lr}
    mov r4, #0
1:  mov r1, #0
    mov r2, #10
    bl divide
    add r3, r3, #'0'
    push {r3}
    add r4, r4, #1
    cmp r0, #0
    bne 1b
2:  pop {r0}
    bl put
    subs r4, r4, #1
    bne 2b
    pop {r4, pc}
    .ltorg

platform:
    platform_name
    .balign 4

    .balign 64
loop:
9:  again
    b finished
    @ The first one: all others refer to it.
    bench loop, loop, fixed=LOOPS

    @ The second one: for those that loop in user mode, where a loop may cost something else.
    .global leave_by_svc
    vectors leave_by_svc, svc=leave
    bench user-loop, user_loop, vectors=leave_by_svc, loop=2, fixed=LOOPS
    .balign 64
user_loop:
    enter_user 1f
    .ltorg
    to_user
    .balign 64
1:
9:  again
    svc #0
    end_user

    .bss
    .balign 4
    .global memory, sctlr
memory:
    .word 0                         @ its physical start
sctlr:
    .word 0
current:
    .word 0                         @ the category's entry
iterations:
    .word 0                         @ how many there are in this run
warm:
    .word 0                         @ whether the category has run before
begun:
    .word 0                         @ the counter
ended:
    .word 0
failing:
    .word 0                         @ whether an unexpected exception is being told
loop_ticks:
    .word 0, 0                      @ in Supervisor mode, in user mode
registers:
    .skip 48
