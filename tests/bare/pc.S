@ The program counter as an operand, and as a destination.

    .include "runtime.inc"

    @ Executes an instruction with known registers and prints R0 to R3 as a sum, and the flags.
    .macro try instruction
    bl prepare
    \instruction
    bl result
    .endm

    .global main
main:
    push {r4-r12, lr}
    say "\ndata"
    .irp op, add, sub, rsb, adc, sbc, rsc, and, orr, eor, bic
    try "\op r0, pc, #0x10"
    try "\op r0, pc, #0xff000000"
    try "\op r0, pc, r3"
    try "\op r0, r3, pc"
    try "\op r0, pc, pc"
    try "\op r0, pc, r3, lsl #3"
    try "\op r0, r3, pc, lsr #2"
    try "\op r0, r3, pc, asr #31"
    try "\op r0, pc, r3, ror #7"
    try "\op r0, pc, r3, rrx"
    try "\op\()s r0, pc, r3"
    try "\op\()s r0, r3, pc, lsl #1"
    try "\op\()s r1, pc, #0x3fc"
    try "\op\()eq r0, pc, r3"
    try "\op\()ne r0, pc, r3"
    try "\op\()sne r0, r3, pc"
    try "\op r3, pc, r3"
    try "\op r2, r2, pc"
    .endr
    say "\nmove"
    try "mov r0, pc"
    try "movs r0, pc"
    try "mvn r0, pc"
    try "mvns r0, pc"
    try "movs r0, pc, lsl #2"
    try "movs r0, pc, rrx"
    try "movne r0, pc"
    try "moveq r0, pc"
    try "mov lr, pc"
    say "\ncompare"
    .irp op, cmp, cmn, tst, teq
    try "\op pc, #0"
    try "\op pc, r3"
    try "\op r3, pc"
    try "\op pc, r3, lsl #4"
    try "\op r3, pc, ror #3"
    try "\op\()eq pc, r3"
    try "\op\()ne pc, r3"
    .endr
    say "\nliterals"
    b 1f
literals:
    .word 0x89abcdef, 0x12345678, 0xfedcba98, 0x76543210
1:  try "ldr r0, literals"
    try "ldr r0, literals + 1"
    try "ldrb r0, literals + 1"
    try "ldrh r0, literals + 2"
    try "ldrsb r0, literals"
    try "ldrsh r0, literals"
    try "ldrd r0, r1, literals"
    try "ldrd r2, r3, literals + 8"
    try "ldreq r0, literals"
    try "ldrne r0, literals"
    try "ldrhne r0, literals"
    try "ldr r3, literals"
    try "mov r1, #4 ; ldr r0, [pc, r1]"
    try "mov r1, #4 ; ldr r0, [pc, -r1]"
    try "mov r1, #4 ; ldr r0, [pc, r1, lsl #1]"
    try "mov r1, #4 ; ldr r1, [pc, r1]"
    try "mov r1, #1 ; ldrb r0, [pc, r1]"
    try "mov r1, #1 ; ldrsb r0, [pc, -r1]"
    try "mov r1, #2 ; ldrh r0, [pc, r1]"
    try "mov r1, #2 ; ldrsh r0, [pc, r1]"
    try "mov r1, #8 ; ldrd r2, r3, [pc, -r1]"
    try "mov r1, #8 ; ldrne r0, [pc, -r1]"
    try "pld [pc, #8]"
    try "pld [pc, r3]"
    bl across
    say "\nstores"
    .macro store instruction
    bl prepare
    b 1f
2:  .word 0x11111111, 0x22222222, 0x33333333
1:  \instruction
    ldr r1, 2b
    ldr r2, 2b + 4
    ldr r3, 2b + 8
    bl result
    .endm
    store "str r0, 2b"
    store "str r3, 2b + 4"
    store "strb r0, 2b + 1"
    store "strh r3, 2b + 2"
    store "strd r2, r3, 2b"
    store "streq r3, 2b"
    store "strne r3, 2b"
    store "mov r1, #-12 ; str r3, [pc, r1]"
    store "mov r1, #12 ; str r3, [pc, -r1]"
    store "mov r1, #16 ; strb r3, [pc, -r1]"
    store "mov r1, #16 ; strh r3, [pc, -r1]"
    store "mov r1, #20 ; strd r2, r3, [pc, -r1]"
    store "adr r1, 2b ; str pc, [r1]"
    store "adr r1, 2b ; str pc, [r1, #4]!"
    store "adr r1, 2b ; str pc, [r1], #4"
    store "adr r1, 2b ; mov r2, #2 ; str pc, [r1, r2, lsl #2]"
    store "adr r1, 2b ; strne pc, [r1]"
    store "adr r1, 2b ; streq pc, [r1]"
    store "str pc, 2b"

    say "\nstm"
    .macro stored_by mode, wback, base, list:vararg
    bl prepare
    bl clear_area
    movw \base, #(SCRATCH + 0x80) & 0xffff
    movt \base, #SCRATCH >> 16
    stm\mode \base\wback, {\list}
    bl area
    bl prepare
    bl clear_area
    movw \base, #(SCRATCH + 0x80) & 0xffff
    movt \base, #SCRATCH >> 16
    stm\mode\()ne \base\wback, {\list}
    stm\mode\()eq \base\wback, {\list}
    bl area
    .endm
    .macro stored base, list:vararg
    .irp mode, ia, ib, da, db
    stored_by \mode, , \base, \list
    stored_by \mode, !, \base, \list
    .endr
    .endm
    @ Without writeback: the base in the list, but not lowest, would be UNKNOWN.
    .macro stored_plain base, list:vararg
    .irp mode, ia, ib, da, db
    stored_by \mode, , \base, \list
    .endr
    .endm
    stored r4, pc
    stored r4, r0, pc
    stored r4, r0-r3, pc
    stored r4, r4, pc
    stored r4, r4-r12, pc
    stored r0, r1, r14, pc
    stored r0, r0, r14, pc
    stored r0, lr, pc
    stored r12, r0-r3, sp, lr, pc
    stored_plain r3, r0-r12, sp, lr, pc
    stored lr, r0-r12, pc
    stored_plain lr, r7, lr, pc
    stored r5, r6, pc
    stored r11, sp, pc

    .ltorg
    bl branches
    bl vector_loads
    pop {r4-r12, pc}

@ R0 to R12 known, flags clear but for C.
prepare:
    pattern
    msr cpsr_f, #0x20000000
    bx lr

@ R0 to R3, R14 apart, as a sum; and the flags.
result:
    str lr, kept_lr
    mrs r4, cpsr
    add r0, r0, r1, ror #9
    add r0, r0, r2, ror #18
    add r0, r0, r3, ror #27
    tst lr, #0x70                   @ a new line now and then
    bne 1f
    say "\n "
1:  show ., r0
    and r4, r4, #0xf8000000
    show f, r4
    ldr pc, kept_lr
kept_lr:
    .word 0

clear_area:
    push {r0-r2}
    ldr r0, =SCRATCH
    mov r1, #0
    add r2, r0, #0x100
1:  str r1, [r0], #4
    cmp r0, r2
    blo 1b
    pop {r0-r2}
    bx lr

@ The sum of all registers and of the area.
area:
    push {r0-r12}
    mov r5, sp
    mov r4, #0
    mov r1, #0
1:  ldr r2, [r5, r1, lsl #2]
    add r4, r2, r4, ror #27
    add r1, r1, #1
    cmp r1, #13
    blo 1b
    ldr r5, =SCRATCH
    mov r1, #0
1:  ldr r2, [r5, r1, lsl #2]
    add r4, r2, r4, ror #27
    add r1, r1, #1
    cmp r1, #64
    blo 1b
    tst lr, #0x60
    bne 1f
    say "\n "
1:  show ., r4
    pop {r0-r12}
    bx lr

    .ltorg
    .balign 4096
    .space 4096 - 512
previous_page:
    .word 0x0badcafe, 0x0badf00d
@ Literals in other pages than the instruction's, and instructions at the end of one.
across:
    str lr, kept_lr3
    try "ldr r0, next_page"
    try "ldr r0, previous_page"
    try "ldrb r0, previous_page + 2"
    try "ldr r3, next_page"
    try "ldr r0, next_page - 2"
    try "mov r1, #64 ; ldr r0, [pc, r1, lsl #1]"
    str r0, next_page
    ldr r0, next_page
    show ., r0
    ldr pc, kept_lr3
kept_lr3:
    .word 0
    .balign 512
next_page:
    .word 0xfeedface, 0xfeedf00d

@ Branches by everything that can write the PC. Each must skip the word behind it.
branches:
    push {lr}
    say "\nbranches"
    mov r10, #0
    .macro jump instructions
    pattern
    mov r10, #0
    \instructions
    mov r10, #1
9:  mrs r9, cpsr
    bl jumped
    .endm
    jump "add pc, pc, #0"
    jump "adds r0, r0, #0 ; add pc, pc, #0"
    jump "mov r1, #0 ; add pc, pc, r1"
    jump "mov r1, #0 ; add pc, r1, pc"
    jump "mov r1, #0 ; add pc, pc, r1, lsl #2"
    jump "sub pc, pc, #0"
    jump "orr pc, pc, #0"
    jump "adr r1, 9f ; mov pc, r1"
    jump "adr r1, 9f ; bx r1"
    jump "adr r1, 9f ; add pc, r1, #0"
    jump "adr r1, 9f ; add r1, r1, #2 ; bic pc, r1, #3"
    jump "adr r1, 9f ; mvn r1, r1 ; mvn pc, r1"
    jump "adr r1, 9f ; mov r0, #0 ; rsb pc, r0, r1"
    jump "adr r1, 9f ; lsr r1, r1, #2 ; mov pc, r1, lsl #2"
    jump "adr r1, 9f ; str r1, [sp, #-4]! ; ldr pc, [sp], #4"
    jump "adr r1, 9f ; push {r0, r1} ; add sp, sp, #8 ; ldr pc, [sp, #-4]"
    jump "adr r1, 9f ; push {r1} ; mov r2, sp ; ldr pc, [r2], #4" ; pop {r0}
    jump "adr r1, 9f ; push {r1} ; add r2, sp, #4 ; ldr pc, [r2, #-4]!" ; pop {r0}
    jump "adr r1, 9f ; push {r1} ; mov r2, #0 ; ldr pc, [sp, r2, lsl #2]" ; pop {r0}
    jump "adr r1, 9f ; push {r1} ; mov r2, #4 ; ldr pc, [sp], r2"
    jump "adr r1, 9f ; push {r1} ; pop {pc}"
    jump "adr r1, 9f ; mov r2, #77 ; push {r1} ; push {r2} ; pop {r3, pc}"
    jump "adr lr, 9f ; push {r4-r11, lr} ; mov r4, #0 ; pop {r4-r11, pc}"
    jump "adr lr, 9f ; push {r0-r12, lr} ; mov r4, #0 ; pop {r0-r12, pc}"
    jump "adr lr, 9f ; push {r0-r12} ; mov r0, sp ; str lr, [sp, #-4]! ; mov lr, #0 ; ldr lr, [sp], #4 ; add sp, sp, #52 ; str lr, [sp, #-4]! ; pop {pc}"
    jump "adr r1, 9f ; push {r1} ; mov r2, sp ; ldmia r2, {pc}" ; pop {r0}
    jump "adr r1, 9f ; push {r0, r1} ; mov r2, sp ; ldmia r2!, {r3, pc}" ; pop {r0, r1}
    jump "adr r1, 9f ; push {r0, r1} ; sub r2, sp, #4 ; ldmib r2!, {r3, pc}" ; pop {r0, r1}
    jump "adr r1, 9f ; push {r0, r1} ; add r2, sp, #4 ; ldmda r2!, {r3, pc}" ; pop {r0, r1}
    jump "adr r1, 9f ; push {r0, r1} ; add r2, sp, #8 ; ldmdb r2!, {r3, pc}" ; pop {r0, r1}
    jump "adr r1, 9f ; push {r0, r1} ; add r2, sp, #8 ; ldmdb r2, {r2, pc}" ; pop {r0, r1}
    jump "adr r1, 9f ; cmp r1, r1 ; moveq pc, r1"
    jump "adr r1, 9f ; cmp r1, r1 ; movne pc, r1"
    jump "adr r1, 9f ; cmp r1, r1 ; bxne r1"
    jump "adr r1, 9f ; push {r1} ; cmp r1, r1 ; ldrne pc, [sp] ; popeq {pc}"
    jump "adr r1, 9f ; push {r1} ; cmp r1, r1 ; popne {r2, pc} ; popeq {pc}"
    jump "mov r1, #0 ; ldr pc, [pc, r1, lsl #2] ; nop ; .word 9f"
    jump "mov r1, #1 ; ldr pc, [pc, r1, lsl #2] ; nop ; .word 0, 9f"
    jump "ldr pc, 1f ; 1: .word 9f"
    jump "ldr pc, =9f"
    jump "ldrne pc, =9f"
    jump "adr lr, 9f ; bx lr"
    jump "adr r1, 9f ; blx r1"
    jump "adr lr, 9f ; blx lr"
    jump "bl 9f"
    jump "b 9f"
    jump "cmp r0, r0 ; bne 9f ; beq 9f"
    say "\ntables"
    mov r4, #0
1:  add pc, pc, r4, lsl #3
    nop
    mov r5, #10
    b 2f
    mov r5, #20
    b 2f
    mov r5, #30
    b 2f
    mov r5, #40
2:  ldr pc, [pc, r4, lsl #2]
    nop
    .word 3f, 4f, 5f, 6f
3:  add r5, r5, #1
4:  add r5, r5, #2
5:  add r5, r5, #3
6:  cmp r4, #2
    ldrls pc, [pc, r4, lsl #2]
    b 7f
    .word 7f, 8f, 7f
8:  add r5, r5, #0x100
7:  show ., r5
    add r4, r4, #1
    cmp r4, #4
    blo 1b
    say "\ncalls"
    mov r0, #0
    bl count
    mov lr, pc
    b count
    ldr r1, =count
    blx r1
    mov lr, pc
    bx r1
    mov lr, pc
    mov pc, r1
    mov lr, pc
    ldr pc, =count
    adr lr, 1f
    ldr pc, =count
    nop
1:  show ., r0
    mov r0, #9
    bl recurse
    show ., r0
    pop {pc}

recurse:
    push {r4, lr}
    mov r4, r0
    cmp r0, #0
    popeq {r4, pc}
    sub r0, r0, #1
    bl recurse
    add r0, r4, r0, lsl #1
    pop {r4, pc}

count:
    add r0, lr, r0, ror #27
    mov pc, lr

jumped:
    str lr, kept_lr2
    add r0, r1, r0, ror #3
    add r0, r2, r0, ror #3
    add r0, r3, r0, ror #3
    add r0, r4, r0, ror #3
    add r0, r12, r0, ror #3
    tst lr, #0x70
    bne 1f
    say "\n "
1:  show ., r10
    show ., r0
    ldr pc, kept_lr2
kept_lr2:
    .word 0

    .ltorg

@ VFP and Advanced SIMD by the PC.
vector_loads:
    .fpu neon
    say "\nvectors"
    push {lr}
    mov r0, #0xf00000
    mcr p15, 0, r0, c1, c0, 2
    isb
    mov r0, #0x40000000
    vmsr fpexc, r0
    b 1f
    .balign 8
2:  .word 0x3f800000, 0x40000000, 0x40400000, 0x40800000
1:  vldr s0, 2b
    vldr d1, 2b + 8
    vmov r0, s0
    vmov r1, r2, d1
    show ., r0
    show ., r1
    show ., r2
    vadd.f32 s4, s0, s2
    vmov r0, s4
    show ., r0
    vldmia pc, {d4, d5}
    b 3f
    .word 0x11111111, 0x22222222, 0x33333333, 0x44444444
3:  vmov r0, r1, d4
    show ., r0
    show ., r1
    vmov r0, r1, d5
    show ., r0
    show ., r1
    vstr s0, 2b + 4
    vstr d4, 2b + 8
    ldr r0, 2b + 4
    show ., r0
    ldr r0, 2b + 12
    show ., r0
    adr r4, 2b
    vld1.32 {d6, d7}, [r4]
    vmov r0, r1, d7
    show ., r0
    show ., r1
    cmp r0, r0
    vldrne s0, 2b + 8
    vmov r0, s0
    show ., r0
    vldreq s0, 2b + 8
    vmov r0, s0
    show ., r0
    vmrs r0, fpexc
    show fpexc, r0
    vcmp.f32 s0, s0
    vmrs apsr_nzcv, fpscr
    mrs r0, cpsr
    show cpsr, r0
    @ Off again: undefined, and the registers keep what they have.
    mov r0, #0
    vmsr fpexc, r0
    vmov r0, s0
    mov r0, #0x40000000
    vmsr fpexc, r0
    vmov r0, s0
    show ., r0
    mov r0, #0
    mcr p15, 0, r0, c1, c0, 2
    isb
    vmov r0, s0
    vmrs r0, fpexc
    pop {pc}

