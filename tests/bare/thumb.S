@ A kernel in T32: instructions that A32 has otherwise or not at all, IT blocks, calls between both states, exceptions
@ out of Thumb state and into it, an instruction across the end of a page, code that changes.

    .include "runtime.inc"

    @ Executes T32 instructions with known registers and prints R0 to R3 as a sum, and the flags.
    .macro try instructions
    bl prepare
    blx 1f
    b 2f
    .thumb
    .balign 4
1:  \instructions
    bx lr
    .balign 4
    .arm
2:  bl result
    .endm

    @ The same from the odd half-word on.
    .macro odd instructions
    bl prepare
    blx 1f
    b 2f
    .thumb
    .balign 4
1:  nop
    \instructions
    bx lr
    .balign 4
    .arm
2:  bl result
    .endm

    @ With memory at R4 to R7.
    .macro memory instructions
    bl prepare_memory
    blx 1f
    b 2f
    .thumb
    .balign 4
1:  \instructions
    bx lr
    .balign 4
    .arm
2:  bl memory_result
    .endm

    .global main
main:
    push {r4-r12, lr}
    say "\ndata"
    try "movs r0, #7"
    try "adds r0, r1, r2 ; adcs r1, r2 ; sbcs r2, r3"
    try "lsls r0, r1, #3 ; lsrs r1, r2, #32 ; asrs r2, r3, #7"
    try "lsls r0, r1 ; rors r2, r0 ; negs r3, r3 ; mvns r1, r1"
    try "muls r0, r1, r0 ; bics r2, r1 ; tst r2, r3"
    try "add r0, sp, #4 ; mov r1, r8 ; add r1, r9 ; cmp r1, r10"
    .irp op, and, orr, eor, bic, orn, add, adc, sub, sbc, rsb
    try "\op\().w r0, r1, #0x00ab00ab"
    try "\op\()s.w r0, r1, #0xab00ab00"
    try "\op\()s.w r2, r2, #0xabababab"
    try "\op\()s.w r0, r1, #0x1fe00000"
    try "\op\()s.w r3, r3, #0x000001fe"
    try "\op\()s.w r0, r1, #0x80000000"
    try "\op\()s.w r0, r1, r2, lsl #3"
    try "\op\()s.w r3, r3, r2, ror #5"
    try "\op\()s.w r1, r2, r1, rrx"
    try "it cs ; \op\()cs.w r0, r1, #0x00ab00ab"
    try "it eq ; \op\()seq.w r0, r1, #0x000001fe"
    try "it pl ; \op\()spl.w r0, r0, #0x000001fe"
    .endr
    try "mov.w r0, #0x00ab00ab ; mvn r1, #0xab00ab00 ; movs.w r2, #0x1fe00000 ; mvns r3, #0x000001fe"
    try "tst r1, #0x01010101 ; it ne ; movne r0, #1 ; teq r1, #0x1fe ; it mi ; movmi r2, #2"
    try "cmp r1, #0x01010101 ; it hi ; movhi r0, #1 ; cmn r1, #0xff00ff00 ; it vs ; movvs r2, #2"
    try "addw r0, r1, #0xfff ; subw r1, r2, #0x801 ; addw r2, r2, #0x104"
    try "movw r0, #0x1234 ; movt r0, #0x5678 ; bfi r1, r2, #3, #9 ; ubfx r2, r3, #5, #7 ; sbfx r3, r3, #1, #3"
    try "uxth r0, r1 ; sxtb r1, r2 ; rev r2, r3 ; rev16 r3, r3 ; clz r1, r1"
    try "smull r0, r1, r2, r3 ; mla r2, r1, r0, r3 ; mls r3, r2, r1, r0 ; umaal r0, r1, r2, r3"
    say "\nthe PC"
    try "mov r0, pc ; add r1, pc ; adr r2, .+8 ; nop ; adr.w r3, .+64"
    odd "mov r0, pc ; add r1, pc ; adr r2, .+10 ; nop ; adr.w r3, .-64"
    try "ldr r0, .+8 ; ldr.w r1, .+4 ; ldrh.w r2, .+12 ; ldrsb.w r3, .+3"
    odd "ldrb.w r0, .+8 ; ldrsh.w r1, .+5 ; ldrd r2, r3, .+14"
    odd "ldrd r3, r2, .+6 ; ldrh.w r0, .-2 ; pld [pc, #8]"
    say "\nIT"
    try "cmp r0, r1 ; ite cc ; addcc r2, r3 ; subcs r2, r3 ; itttt ne ; movne r0, #1 ; movne r1, #2 ; cmpne r0, r1 ; movne r3, #9"
    try "itete cs ; lslcs r0, r1, #3 ; lslcc r0, r1, #4 ; addcs r1, #1 ; addcc r1, #2"
    try "itt cs ; cmpcs r0, r0 ; addcs r0, #1 ; it eq ; addeq r0, #2"
    try "ittee ne ; movne r0, #1 ; dmbne sy ; moveq r1, #2 ; nopeq"
    try "itttt mi ; ldrmi r0, [r1] ; strmi r0, [r1] ; udf #3 ; bmi ."

    say "\nmemory"
    memory "ldrh.w r0, [r4, #0x104] ; ldrsh.w r1, [r4, #0x102] ; ldrsb.w r2, [r4, #0x105] ; ldrb.w r3, [r4, #0x106]"
    memory "strh.w r0, [r4, #0x104] ; strh.w r4, [r4, #0x100] ; strb.w r1, [r4, #0x10b]"
    memory "movs r5, #3 ; ldrh.w r0, [r4, r5, lsl #1] ; ldrsh.w r1, [r4, r5, lsl #2] ; ldrsb.w r2, [r4, r5, lsl #3]"
    memory "movs r5, #3 ; strh.w r0, [r4, r5, lsl #1] ; str.w r1, [r4, r5, lsl #2] ; ldr.w r4, [r4, r5, lsl #3] ; mov r3, r4"
    memory "ldrd r0, r1, [r4, #8] ; ldrd r2, r3, [r4, #0x104]"
    memory "ldrd r1, r0, [r4], #16 ; ldrd r3, r2, [r4, #-8]! ; add r0, r4"
    memory "ldrd r4, r1, [r4, #16] ; add r0, r4 ; add r2, r1"
    memory "strd r0, r1, [r4, #8] ; strd r1, r0, [r4, #16] ; strd r2, r0, [r4, #0x108]"
    memory "strd r3, r1, [r4], #8 ; strd r1, r3, [r4, #8]! ; strd r0, r3, [r4, #-4] ; mov r0, r4"
    memory "strd r4, r1, [r4, #8] ; strd r1, r4, [r4, #32] ; strd r2, r2, [r4, #40]"
    memory "strd r3, r3, [r4, #8] ; strd r2, r2, [r4, #0x208] ; strd r0, r0, [r4], #16 ; strd r12, r12, [r4, #-8]!"
    memory "strd r4, r4, [r4, #8] ; strd r5, r4, [r4] ; strd r12, r2, [r4, #16] ; strd r3, r3, [r4, #-16]! ; mov r0, r4"
    memory "strd r2, r1, [sp, #-16] ; ldr r0, [sp, #-16] ; ldr r3, [sp, #-12] ; cmp r0, r0 ; it ne ; strdne r3, r3, [r4]"
    memory "ldrex r0, [r4, #8] ; strex r1, r2, [r4, #8] ; strex r3, r2, [r4, #8]"
    memory "ldrex r4, [r4, #4] ; mov r0, r4"
    memory "ldrexd r0, r1, [r4] ; strexd r2, r3, r0, [r4]"
    memory "ldrexd r1, r2, [r4] ; strexd r0, r2, r1, [r4] ; strexd r3, r2, r1, [r4]"
    memory "ldrt r0, [r4] ; ldrt r1, [r4, #4] ; strt r2, [r4, #8] ; ldrht r2, [r4, #6] ; ldrsbt r3, [r4, #1] ; strbt r3, [r4]"
    memory "push {r0-r3, lr} ; pop {r0} ; pop {r1, r2, r3, lr}"
    memory "stmia r4!, {r0, r1, r3} ; ldmdb r4!, {r0, r2} ; ldm r4, {r1, r3, r4} ; add r0, r4"
    memory "ldr r0, [r4, #4]! ; ldr r1, [r4], #-4 ; ldr r2, [r4, #-4] ; strh r2, [r4, #2]! ; ldrsb r3, [r4], #1 ; add r0, r4"

    say "\nbranches"
    .irp value, 0, 1, 0x80000000
    try "mov.w r0, #\value ; cbz r0, 3f ; adds r1, #1 ; 3: cbnz r0, 3f ; adds r1, #2 ; 3: adds r2, #4"
    .endr
    .irp value, 0, 1, 2
    try "movs r0, #\value ; tbb [pc, r0] ; 3: .byte (4f - 3b) / 2, (5f - 3b) / 2, (6f - 3b) / 2, 0 ; 4: adds r1, #1 ; 5: adds r1, #2 ; 6: adds r1, #4"
    odd "movs r0, #\value ; tbh [pc, r0, lsl #1] ; 3: .hword (4f - 3b) / 2, (5f - 3b) / 2, (6f - 3b) / 2 ; 4: adds r1, #1 ; 5: adds r1, #2 ; 6: adds r1, #4"
    .endr
    try "mov r3, lr ; bl 3f ; blx 4f ; adr r0, 5f + 1 ; bx r0 ; .balign 4 ; 5: adds r2, #4 ; b 6f ; 3: mov r0, lr ; adds r1, #1 ; bx lr ; .balign 4 ; .arm ; 4: add r1, r1, lr ; bx lr ; .thumb ; 6: mov lr, r3"
    try ".balign 4 ; bx pc ; nop ; .arm ; adds r0, r0, #1 ; add r1, pc, #1 ; bx r1 ; .thumb ; adds r2, #1"
    try "mov r3, lr ; adr r0, 3f ; mov pc, r0 ; adds r1, #1 ; .balign 4 ; 3: movs r0, #2 ; add pc, r0 ; adds r1, #2 ; nop ; 4: adr r0, 5f + 1 ; push {r0} ; pop {pc} ; .balign 4 ; 5: adds r2, #1 ; adr r0, 6f ; str r0, [sp, #-4] ; ldr.w pc, [sp, #-4] ; .balign 4 ; .arm ; 6: add lr, r3, #0 ; .thumb ; .balign 4 ; bx pc ; nop ; .arm ; bx lr ; .thumb"
    try "movs r0, #5 ; 3: adds r1, r1, r0 ; subs r0, #1 ; bne 3b ; cmp r1, r2 ; bhi.w 3f ; adds r2, #1 ; 3: b.w 3f ; adds r2, #2 ; 3: nop"
    try "cmp r0, r0 ; itt eq ; moveq r1, #1 ; beq 3f ; movs r1, #2 ; 3: it ne ; bne 3f ; movs r2, #3 ; 3: it eq ; bxeq lr ; movs r3, #4"

    say "\nexceptions from T32"
    try "udf #1"
    odd "udf.w #0x123"
    try "mov r12, lr ; svc #7 ; adds r0, #1 ; mov lr, r12"
    try "mov r12, lr ; ite cs ; svccs #7 ; movcc r0, #8 ; mov lr, r12"
    try "mov r12, lr ; itet eq ; moveq r0, #1 ; svcne #9 ; moveq r1, #2 ; mov lr, r12"
    try "itt cs ; udf #2 ; addcs r0, #1"
    try "ldr r1, =ABSENT ; ldr.w r0, [r1, #4]"
    odd "ldr r1, =ABSENT ; itet cs ; movcs r0, #1 ; movcc r0, #2 ; ldrcs.w r2, [r1] ; adds.n r0, #8"
    try "ldr r1, =ABSENT ; ldrd r2, r1, [r1, #8]"
    try "ldr r1, =ABSENT ; strh.w r0, [r1, #0x200]"
    try "ldr r1, =ABSENT ; strd r3, r3, [r1, #8] ; strd r3, r2, [r1, #4]! ; strd r2, r2, [r1, #0x108]"
    try "ldr r1, =ABSENT ; tbb [r1, r0]"
    try "bkpt #4 ; nop"
    resume_at to_a32
    try "ldr r3, =ABSENT ; mov r2, lr ; bx r3"
    try "mrc p15, 0, r0, c1, c1, 7"
    say "\nsystem"
    try "mrs r0, cpsr ; cpsid if ; mrs r1, cpsr ; cpsie a ; cpsid a ; msr cpsr_f, r1"
    try "mrs r0, spsr ; movw r1, #0x11f ; msr spsr_fsxc, r1 ; mrs r2, spsr ; msr spsr_fsxc, r0"
    try "cps #MODE_SYS ; mov r0, sp ; cps #MODE_SVC ; mov r1, sp"
    @ As Linux reaches SP and LR of user code: stored, loaded again, and where nothing is.
    .irp access, str.w, ldr.w
    memory "mrs r3, cpsr ; eor r3, r3, #12 ; msr cpsr_c, r3 ; str.w sp, [r4] ; str.w lr, [r4, #4] ; eor r3, r3, #12 ; msr cpsr_c, r3 ; mrs r2, cpsr ; eor r2, r2, #12 ; msr cpsr_c, r2 ; \access sp, [r4] ; \access lr, [r4, #4] ; eor r2, r2, #12 ; msr cpsr_c, r2 ; mov r0, sp"
    try "ldr r1, =ABSENT ; mrs r3, cpsr ; eor r3, r3, #12 ; msr cpsr_c, r3 ; \access sp, [r1] ; \access lr, [r1, #4] ; eor r3, r3, #12 ; msr cpsr_c, r3"
    .endr
    try "mrc p15, 0, r0, c1, c0, 0 ; mcr p15, 0, r1, c13, c0, 4 ; mrc p15, 0, r2, c13, c0, 4 ; dsb ; isb"
    try "mov r3, lr ; srsdb sp!, #MODE_SVC ; pop {r0, r1} ; adr r0, 3f ; movw r1, #0x1f3 ; push {r0, r1} ; rfeia sp! ; .balign 4 ; 3: mrs r2, cpsr ; mov lr, r3"
    try "mov r3, lr ; adr r0, 3f ; add lr, r0, #4 ; movw r1, #0x0dd3 ; movt r1, #0x2000 ; orr r1, #0x20 ; msr spsr_fsxc, r1 ; subs pc, lr, #4 ; .balign 4 ; 3: adds.n r2, #1 ; mrs r0, cpsr ; mov lr, r3"
    try "mov r3, lr ; adr lr, 3f ; movw r1, #0x1d3 ; msr spsr_fsxc, r1 ; movs.w pc, lr ; .balign 4 ; .arm ; 3: add r2, r2, #1 ; bx r3 ; .thumb"
    .irp it, 0x0c00, 0x1800, 0x06000400
    try "mov r3, lr ; adr lr, 3f ; ldr r1, =0x200001f3 + \it ; msr spsr_fsxc, r1 ; movs.w pc, lr ; .balign 4 ; 3: adds.n r2, #1 ; adds.n r2, #2 ; adds.n r2, #4 ; adds.n r2, #8 ; mov lr, r3"
    .endr

    say "\nexceptions in Thumb state"
    ldr r0, =thumb_vectors
    mcr p15, 0, r0, c12, c0, 0
    mrc p15, 0, r0, c1, c0, 0
    orr r0, r0, #1 << 30
    set_sctlr r0
    try "mov r12, lr ; svc #1 ; adds r0, #1 ; mov lr, r12"
    try "mov r12, lr ; itt cs ; svccs #1 ; addcs r0, #1 ; mov lr, r12"
    bl prepare
    svc #1
    add r0, r0, #1
    bl result
    bl prepare
    udf #1
    bl result
    user user_t32, 0x20000000
    mrc p15, 0, r0, c1, c0, 0
    bic r0, r0, #1 << 30
    set_sctlr r0
    vectors_at vectors

    say "\nacross pages"
    bl prepare
    mov r4, #3
1:  blx near_the_end
    subs r4, r4, #1
    bne 1b
    bl result
    bl prepare
    @ The second half of the instruction becomes another one, in a page that has no other code.
    ldr r5, =second_half
    ldrh r6, [r5]
    orr r6, r6, #0x0f
    strh r6, [r5]
    publish_all
    blx near_the_end
    bl result
    say "\nchanging"
    bl prepare
    mov r4, #4
    ldr r5, =changing
1:  blx changing
    ldrh r6, [r5]
    add r6, r6, #1
    strh r6, [r5]
    publish_all
    subs r4, r4, #1
    bne 1b
    bl result
    bl prepare
    blx changes_itself
    bl result
    pop {r4-r12, pc}

    .balign 4
to_a32:
    mov lr, r2
    bx lr

prepare:
    pattern
    msr cpsr_f, #0x20000000
    bx lr

result:
    str lr, kept_lr
    mrs r4, cpsr
    add r0, r0, r1, ror #9
    add r0, r0, r2, ror #18
    add r0, r0, r3, ror #27
    tst lr, #0x70
    bne 1f
    say "\n "
1:  show ., r0
    and r4, r4, #0xf8000000
    show f, r4
    ldr pc, kept_lr
kept_lr:
    .word 0

prepare_memory:
    str lr, kept_lr
    ldr r0, =SCRATCH
    mov r1, #0
1:  add r2, r1, r1, lsl #11
    add r2, r2, #0x8500
    str r2, [r0, r1, lsl #2]
    add r1, r1, #1
    cmp r1, #0x100
    bne 1b
    pattern
    ldr r4, =SCRATCH
    msr cpsr_f, #0x20000000
    ldr pc, kept_lr

memory_result:
    str lr, kept_memory_lr
    bl result
    ldr r1, =SCRATCH
    mov r0, #0
    mov r2, #0x100
1:  ldr r3, [r1], #4
    add r0, r3, r0, ror #27
    subs r2, r2, #1
    bne 1b
    show m, r0
    ldr pc, kept_memory_lr
kept_memory_lr:
    .word 0

    .ltorg

    .thumb
    .balign 32
    .thumb_func
thumb_vectors:
    b.w .
    b.w thumb_und
    b.w thumb_svc
    b.w .
    b.w .
    b.w .
    b.w .
    b.w .

    .thumb_func
thumb_svc:
    push {r0-r3, lr}
    mrs r0, spsr
    mrs r1, cpsr
    blx 1f
    pop {r0-r3, lr}
    movs.w pc, lr
    .balign 4
    .arm
1:  push {lr}
    show spsr, r0
    show cpsr, r1
    ldr r2, [sp, #20]
    show lr, r2
    and r0, r0, #15
    cmp r0, #0
    popne {lr}
    bxne lr
    ldr r0, =user_caller
    ldr sp, [r0]
    pop {r4-r12, pc}

    .thumb
    .thumb_func
thumb_und:
    srsdb sp!, #MODE_UND
    push {r0, r1}
    mrs r0, spsr
    mov r1, lr
    push {r2, lr}
    blx 1f
    pop {r2, lr}
    pop {r0, r1}
    rfeia sp!
    .balign 4
    .arm
1:  push {lr}
    show und, r0
    show lr, r1
    pop {lr}
    bx lr

    .thumb
    .balign 4
    .thumb_func
user_t32:
    adds r0, r1, r2
    svc #LEAVE

    .thumb
    .balign 4
    .thumb_func
changing:
    adds r0, #1
    bx lr

    .balign 4
    .thumb_func
changes_itself:
    adr r1, 1f
    ldrh r2, [r1]
    adds r2, #5
    strh r2, [r1]
    dsb
    mcr p15, 0, r0, c7, c5, 0
    dsb
    isb
    .balign 4
1:  adds r0, #1
    bx lr
    .ltorg

    .balign 4096
    .space 4096 - 10
    .balign 4
    .thumb_func
near_the_end:
    adds r1, #1
    itt cs
    addcs r2, #1
    .inst.w 0xf1000001              @ add r0, r0, #1, across the end
second_half = . - 2
    adds r3, #1
    bx lr
    .balign 4
    .arm
