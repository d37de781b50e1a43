@ VFP and Advanced SIMD: who may use them when, and that their registers are kept across everything that may happen in
@ between.

    .include "runtime.inc"
    .include "tables.inc"
    .fpu neon

    @ Twice: privilege switches go another way with the MMU on.
    .global main
main:
    push {r4-r12, lr}
    say "\nMMU off"
    bl everything
    say "\nMMU on"
    bl flat_tables
    bl mmu_on
    bl everything
    pop {r4-r12, pc}

everything:
    push {r4-r12, lr}
    mov r0, #0
    put number, r0, r1
    say "\naccess"
    mov r4, #0
1:  @ CPACR: none, privileged, reserved, all; FPEXC.EN
    and r0, r4, #3
    orr r0, r0, r0, lsl #2
    lsl r0, r0, #20
    and r1, r4, #3
    cmp r1, #2
    beq 9f
    mov r1, #0xf00000
    mcr p15, 0, r1, c1, c0, 2
    isb
    tst r4, #4
    movne r1, #0x40000000
    moveq r1, #0
    vmsr fpexc, r1
    mcr p15, 0, r0, c1, c0, 2
    isb
    say "\n "
    show case, r4
    mrc p15, 0, r0, c1, c0, 2
    show cpacr, r0
    pattern
    vmrs r0, fpexc
    show fpexc, r0
    pattern
    vmrs r0, fpscr
    show fpscr, r0
    vmov s0, r1
    vmov r2, s0
    show s0, r2
    vadd.f32 s1, s0, s0
    vadd.i32 q1, q0, q0
    vldr s4, words
    vmov.i32 d16, #1
    pattern
    ldr r12, =0x9bc0009f            @ no short vectors: not all cores have them
    vmsr fpscr, r12
    user uses_vfp
    user uses_vfp_thumb + 1
9:  ldr r4, =number
    ldr r0, [r4]
    add r0, r0, #1
    str r0, [r4]
    mov r4, r0
    cmp r4, #8
    blo 1b

    say "\nkept"
    mov r0, #0xf00000
    mcr p15, 0, r0, c1, c0, 2
    isb
    mov r0, #0x40000000
    vmsr fpexc, r0
    ldr r0, =words
    vldmia r0!, {d0-d15}
    vldmia r0, {d16-d31}
    ldr r0, =0x03c00000             @ rounding, flush to zero, default NaN
    vmsr fpscr, r0
    bl sum_of_registers
    svc #1
    udf #1
    ldr r1, =ABSENT
    ldr r0, [r1]
    cps #MODE_FIQ
    cps #MODE_SVC
    bl sum_of_registers
    mov r0, #0
    vmsr fpexc, r0
    user idles
    vmov r0, s3                     @ undefined
    mov r0, #0x40000000
    vmsr fpexc, r0
    bl sum_of_registers
    user changes_vfp
    bl sum_of_registers
    mov r0, #0
    mcr p15, 0, r0, c1, c0, 2
    isb
    user uses_vfp
    mov r0, #0xf00000
    mcr p15, 0, r0, c1, c0, 2
    isb
    bl sum_of_registers
    say "\narithmetic"
    mov r0, #0
    vmsr fpscr, r0
    ldr r1, =floats
    mov r5, #6
2:  vldr s0, [r1]
    vldr s1, [r1, #4]
    vadd.f32 s2, s0, s1
    vmul.f32 s3, s0, s1
    vdiv.f32 s4, s0, s1
    vcvt.f64.f32 d3, s1
    vsqrt.f64 d4, d3
    vcvt.s32.f32 s10, s0
    vmov r0, s2
    show add, r0
    vmov r0, s3
    show mul, r0
    vmov r0, s4
    show div, r0
    vmov r2, r3, d4
    show sqrt, r2
    show sqrt, r3
    vmov r0, s10
    show int, r0
    vcmp.f32 s0, s1
    vmrs apsr_nzcv, fpscr
    mrs r0, cpsr
    show cpsr, r0
    vmrs r0, fpscr
    show fpscr, r0
    vldrgt s0, words
    vmoveq r0, s0
    add r1, r1, #8
    subs r5, r5, #1
    bne 2b
    bl with_vfp_off
    bl lazily
    pop {r4-r12, pc}

sum_of_registers:
    push {r4, lr}
    vmrs r4, fpscr
    sub sp, sp, #256
    mov r0, sp
    vstmia r0!, {d0-d15}
    vstmia r0, {d16-d31}
    mov r0, #64
1:  ldr r1, [sp], #4
    add r4, r1, r4, ror #27
    subs r0, r0, #1
    bne 1b
    show sum, r4
    pop {r4, pc}

    .ltorg

uses_vfp:
    vmov r2, s0
    vmov s0, r1
    vmrs r0, fpscr
    vmrs r0, fpexc                  @ never for user code
    vmsr fpexc, r0
    vadd.i32 q1, q0, q0
    vldr s4, words
    svc #LEAVE
changes_vfp:
    vmov.i32 q9, #77
    vadd.f32 s5, s3, s4
    vmrs r0, fpscr
    svc #2
    bic r0, r0, #0x00400000
    vmsr fpscr, r0
    svc #LEAVE
idles:
    vmov r2, s0
    svc #3
    svc #LEAVE
undefined_words:
    udf #1
    vmov r2, s0
    .word 0xee000110                @ mcr p1
    .word 0xee010f10                @ mcr p15, SCTLR
    svc #LEAVE
adds_one:
    vmov r2, s30
    add r2, r2, #1
    vmov s30, r2
    svc #LEAVE
    .balign 4
words:
    .word 0x3f800000, 0x40000001, 0x40400002, 0x40800003, 0x40a00004, 0x40c00005, 0x40e00006, 0x41000007
    .word 0x41100008, 0x41200009, 0x4130000a, 0x4140000b, 0x4150000c, 0x4160000d, 0x4170000e, 0x4180000f
    .rept 48
    .word 0x3c000000 + . - words
    .endr
floats:
    .float 1.5, 2.25
    .float -3.0, 7.0
    .float 1e30, 1e30
    .float 0.0, 0.0
    .word 0x7fc00000, 0x3f800000
    .float 123456789.0, -0.001
    .thumb
uses_vfp_thumb:
    .macro after label
    ldr r3, =resume
    ldr r4, =\label + 1
    str r4, [r3]
    .endm
    after 1f
    vmov r2, s0
1:  after 1f
    cmp r0, r0
    itt eq
    vmoveq s0, r1
    moveq r5, #1
1:  after 1f
    vadd.i32 q1, q0, q0
1:  ldr r3, =resume
    movs r4, #0
    str r4, [r3]
    svc #LEAVE
    .ltorg
undefined_words_thumb:
    after 1f
    udf #1
1:  after 1f
    vmov r2, s0
1:  after 1f
    .inst.w 0xee000110              @ mcr p1
1:  after 1f
    .inst.w 0xee010f10              @ mcr p15, SCTLR
1:  after 1f
    .inst.w 0xf7f0a000              @ udf.w
1:  svc #LEAVE
    .ltorg
adds_one_thumb:
    vmov r2, s30
    adds r2, r2, #1
    vmov s30, r2
    svc #LEAVE
    @ An instruction on both sides of the end of a page, and one that is the last there.
    .balign 4096
    .space 4094 - 16
end_of_page_thumb:
    ldr r3, =resume
    adr r4, 1f + 1
    str r4, [r3]
    b 2f
    .ltorg
    .balign 4
    .space 2
2:  vmov r2, s0
1:  svc #LEAVE
    .balign 4096
    .space 4094 - 4
adds_one_at_end_of_page_thumb:
    nop
    nop
    vmov r2, s30
    adds r2, r2, #1
    vmov s30, r2
    svc #LEAVE
    .arm
    .balign 4

@ What else is undefined while VFP is off, in both instruction sets: no VFP at all, another coprocessor, and at the end
@ of a page.
with_vfp_off:
    push {r4, lr}
    say "\noff"
    mov r0, #0
    vmsr fpexc, r0
    user undefined_words
    user undefined_words_thumb + 1
    user end_of_page_thumb + 1
    mov r0, #0x40000000
    vmsr fpexc, r0
    say "\non"
    user undefined_words
    user undefined_words_thumb + 1
    user end_of_page_thumb + 1
    pop {r4, pc}

@ As kernels do: VFP is off until user code uses it, which is executed again then; the kernel has used it by that time.
lazily:
    push {r4, r5, lr}
    say "\nlazily"
    vectors_at lazy_vectors
    mov r5, #3
    mov r0, #0x40000000
    vmsr fpexc, r0
    mov r0, #0
    vmov s31, r0
1:  mov r0, #0
    vmsr fpexc, r0
    user adds_one
    vmrs r0, fpexc
    show fpexc, r0
    mov r0, #0
    vmsr fpexc, r0
    user adds_one_thumb + 1
    mov r0, #0
    vmsr fpexc, r0
    user adds_one_at_end_of_page_thumb + 1
    vmov r0, s30
    show s30, r0
    vmov r0, s31
    show turned_on, r0
    @ Off and on again, unused.
    mov r0, #0
    vmsr fpexc, r0
    mov r1, #0x40000000
    vmsr fpexc, r1
    vmsr fpexc, r0
    vmrs r0, fpexc
    show fpexc, r0
    vmsr fpexc, r1
    subs r5, r5, #1
    bne 1b
    @ Privileged code only: user code gets an exception, whatever is on.
    mov r0, #0x500000
    mcr p15, 0, r0, c1, c0, 2
    isb
    vmov r0, s31
    show turned_on, r0
    vectors_at vectors
    user idles
    mov r0, #0xf00000
    mcr p15, 0, r0, c1, c0, 2
    isb
    vmov r0, s31
    show turned_on, r0
    user idles
    pop {r4, r5, pc}

lazy_und:
    push {r0, r1}
    mrs r0, spsr
    tst r0, #0x20
    subne lr, lr, #2
    subeq lr, lr, #4
    vmrs r1, mvfr0
    mov r0, #0x40000000
    vmsr fpexc, r0
    vmov r0, s31
    add r0, r0, #1
    vmov s31, r0
    pop {r0, r1}
    movs pc, lr

    .balign 32
lazy_vectors:
    b .
    b lazy_und
    b on_svc
    b on_pabt
    b on_dabt
    b .
    b on_irq
    b on_fiq


    .ltorg

    .section .data
number:
    .word 0
    .section .text
