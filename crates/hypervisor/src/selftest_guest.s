@ A guest for the self-test: a zImage by its header, and a kernel that looks for what another guest may have left in the
@ core, leaves marks of its own there, and powers itself off.
@
@ At the end: R4 its mark, R5 to R8 what it found in TPIDRURW, TPIDRURO, S0 and D31, R9 the word of RAM behind its
@ image.

.section .rodata.selftest_guest, "a"
.arm
.fpu neon
.arch_extension sec
.balign 4
.global selftest_guest_start, selftest_guest_mark, selftest_guest_end
selftest_guest_start:
    b 1f
    .space 0x20
    .word 0x016f2818                        @ zImage magic, start, end
    .word 0
    .word selftest_guest_end - selftest_guest_start
1:  ldr r4, selftest_guest_mark
    mrc p15, 0, r5, c13, c0, 2
    mrc p15, 0, r6, c13, c0, 3
    mov r0, #0xf00000                       @ CPACR: coprocessors 10 and 11
    mcr p15, 0, r0, c1, c0, 2
    isb
    mov r0, #0x40000000                     @ FPEXC.EN
    vmsr fpexc, r0
    vmov r7, s0
    vmov r8, r0, d31
    adr r1, selftest_guest_end
    ldr r9, [r1]
    str r4, [r1]
    mcr p15, 0, r4, c13, c0, 2
    mcr p15, 0, r4, c13, c0, 3
    vmov s0, r4
    vmov d31, r4, r4
    cps #0x1f                               @ System mode: its SP is not Supervisor's
    mov sp, r4
    cps #0x13
    mov sp, #0
    cps #0x1f
    mov r10, sp
    ldr r0, 2f
    smc #0
    b .
2:  .word 0x84000008                        @ PSCI SYSTEM_OFF
selftest_guest_mark:
    .word 0
selftest_guest_end:
