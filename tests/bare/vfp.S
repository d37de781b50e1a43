@ VFP and Advanced SIMD: who may use them when, and that their registers are kept across everything that may happen in
@ between.

    .include "runtime.inc"
    .fpu neon

    .global main
main:
    push {r4-r12, lr}
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
    .arm
    .balign 4

    .section .data
number:
    .word 0
    .section .text
