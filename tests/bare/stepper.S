@ Executes pieces of code natively, each from a state that the host gives, and gives back the state in which they ended.
@
@ It is the independent processor behind `spica prove --part model` (crates/prove/src/native). Host and stepper share
@ the board's memory, which is a file. The host writes a batch of cases there and one byte to the console; the stepper
@ works them off in place and answers with one byte.
@
@ It lives in FIQ mode: the registers that FIQ mode has of its own survive whatever a piece does in the other modes, so
@ the first instruction of each vector changes to it and nothing is lost. Cases run at VIRTUAL addresses of their own,
@ in three pages of code and four of data; all else that is mapped is the stepper's.
@
@ A batch: the number of cases; then for each, its header (number of pieces, seven page descriptors), seven pages, and
@ its pieces. What is where in a piece is `record.rs`.

    .arm
    .arch armv7-a
    .arch_extension virt
    .fpu neon

    .equ TABLE, 0x40080000          @ first level
    .equ CODE_TABLE, 0x40084000     @ second level, of VIRTUAL code and data
    .equ DATA_TABLE, 0x40084400
    .equ PAGES, 0x40100000          @ where the seven pages are
    .equ PAGES_SIZE, 7 * 4096
    .equ KNOWN, 0x401ff000          @ what system registers hold, for the host
    .equ BATCH, 0x40200000
    .equ UART, 0x09000000
    .equ GICD, 0x08000000
    .equ GICC, 0x08010000
    .equ FIQ, 0x11

    @ In a piece, in bytes.
    .equ USR_BANK, 13 * 4           @ R0 to R12 before it
    .equ BANKS, 15 * 4              @ SP, LR, SPSR of Supervisor, Abort, Undefined, IRQ mode
    .equ START, 27 * 4              @ PC and CPSR; afterwards, the vector
    .equ VFP_RIGHTS, 29 * 4         @ CPACR, FPEXC
    .equ SYSTEM, 31 * 4
    .equ PATCHES, 42 * 4            @ two, of an address and a word; no address, no patch
    .equ STATUS, 46 * 4             @ FPSCR
    .equ VFP, 48 * 4
    .equ PIECE, 112 * 4

    .text
    .global _start
_start:
    cpsid aif, #FIQ
    @ All is unmapped, but for memory and devices.
    ldr r0, =TABLE
    mov r1, #0
    add r2, r0, #0x8000
1:  str r1, [r0], #4
    cmp r0, r2
    blo 1b
    ldr r0, =TABLE + (0x400 << 2)
    ldr r1, =0x40000402             @ section, domain 0, kernel only
    mov r2, #32
2:  str r1, [r0], #4
    add r1, r1, #0x100000
    subs r2, r2, #1
    bne 2b
    ldr r0, =TABLE
    ldr r1, =GICD + 0x412
    str r1, [r0, #0x080 << 2]
    ldr r1, =UART + 0x412
    str r1, [r0, #0x090 << 2]
    ldr r1, =CODE_TABLE + 1
    add r2, r0, #0x800 << 2
    str r1, [r2]
    ldr r1, =DATA_TABLE + 1
    add r2, r0, #0x900 << 2
    str r1, [r2]
    mov r1, #0
    mcr p15, 0, r1, c2, c0, 2       @ TTBCR
    mcr p15, 0, r0, c2, c0, 0       @ TTBR0
    mov r1, #1
    mcr p15, 0, r1, c3, c0, 0       @ DACR: domain 0, by permissions
    ldr r1, =vectors
    mcr p15, 0, r1, c12, c0, 0      @ VBAR
    mcr p15, 0, r0, c8, c7, 0
    mrc p15, 0, r1, c1, c0, 0
    bic r1, r1, #0x20000000         @ no access flag,
    bic r1, r1, #0x10000000         @ no remap,
    bic r1, r1, #2                  @ no alignment that is not due
    orr r1, r1, #1
    mcr p15, 0, r1, c1, c0, 0
    isb
    @ What the host has to know.
    ldr r0, =KNOWN
    mrc p15, 0, r1, c0, c0, 1
    mrc p15, 0, r2, c1, c0, 0
    mrc p15, 0, r3, c2, c0, 0
    stm r0, {r1-r3}
    @ A byte that is received ends WFI.
    ldr r0, =GICD
    mov r1, #1
    str r1, [r0]
    mov r1, #2
    str r1, [r0, #0x104]            @ interrupt 33
    ldr r0, =GICC
    mov r1, #0xff
    str r1, [r0, #4]
    mov r1, #1
    str r1, [r0]
    ldr r0, =UART
    ldr r1, =0x301
    str r1, [r0, #0x30]
    mov r1, #0x10
    str r1, [r0, #0x38]
    ldr r1, =0x60                   @ no FIFO
    str r1, [r0, #0x2c]

answer:
    ldr r0, =UART
    mov r1, #'.'
    str r1, [r0]
wait:
    ldr r0, =UART
    ldr r1, [r0, #0x18]
    tst r1, #0x10
    wfine
    bne wait
    ldr r1, [r0]
    ldr r8, =BATCH
    ldr r10, [r8], #4               @ cases
case:
    subs r10, r10, #1
    bmi answer
    ldm r8!, {r9}                   @ pieces
    ldm r8!, {r0-r2}
    ldr r7, =CODE_TABLE
    stm r7, {r0-r2}
    ldm r8!, {r0-r3}
    ldr r7, =DATA_TABLE
    stm r7, {r0-r3}
    mcr p15, 0, r0, c8, c7, 0
    dsb
    isb
    mov r13, r8                     @ the pages of the case
    ldr r12, =PAGES
    ldr r11, =PAGES + PAGES_SIZE
3:  ldm r8!, {r0-r7}
    stm r12!, {r0-r7}
    cmp r12, r11
    blo 3b
piece:
    subs r9, r9, #1
    bmi pieces_done

    ldr r0, [r8, #PATCHES]
    ldr r1, [r8, #PATCHES + 4]
    cmp r0, #0
    strne r1, [r0]
    ldr r0, [r8, #PATCHES + 8]
    ldr r1, [r8, #PATCHES + 12]
    cmp r0, #0
    strne r1, [r0]
    bl vfp_on
    add r0, r8, #VFP
    vldm r0!, {d0-d15}
    vldm r0, {d16-d31}
    ldr r0, [r8, #STATUS]
    vmsr fpscr, r0
    add r0, r8, #VFP_RIGHTS
    ldm r0, {r1-r2}
    vmsr fpexc, r2
    mcr p15, 0, r1, c1, c0, 2
    isb
    add r7, r8, #SYSTEM
    ldm r7!, {r0-r6}
    mcr p15, 0, r0, c13, c0, 2
    mcr p15, 0, r1, c13, c0, 3
    mcr p15, 0, r2, c13, c0, 4
    mcr p15, 0, r3, c5, c0, 0
    mcr p15, 0, r4, c5, c0, 1
    mcr p15, 0, r5, c6, c0, 0
    mcr p15, 0, r6, c6, c0, 2
    ldm r7, {r0-r3}
    mcr p15, 0, r0, c2, c0, 1
    mcr p15, 0, r1, c13, c0, 1
    mcr p15, 0, r2, c3, c0, 0
    mcr p14, 6, r3, c1, c0, 0
    isb
    add r0, r8, #BANKS
    .irp mode, 0x13, 0x17, 0x1b, 0x12
    cps #\mode
    ldm r0!, {r1-r3}
    mov sp, r1
    mov lr, r2
    msr spsr_fsxc, r3
    .endr
    cps #FIQ
    clrex
    add lr, r8, #START
    ldm r8, {r0-r14}^
    rfeia lr

vfp_on:
    mov r0, #0xf00000
    mcr p15, 0, r0, c1, c0, 2
    isb
    mov r0, #0x40000000
    vmsr fpexc, r0
    bx lr

    .balign 32
vectors:
    udf #0
    b undefined
    b supervisor_call
    b prefetch_abort
    b data_abort
    udf #0
    b interrupt
    udf #0

    .macro vector name, number
\name:
    cps #FIQ
    mov r11, #\number
    b save
    .endm
    vector undefined, 1
    vector supervisor_call, 2
    vector prefetch_abort, 3
    vector data_abort, 4
    vector interrupt, 6

save:
    stm r8, {r0-r14}^
    str r11, [r8, #START]
    mrc p15, 0, r0, c13, c0, 2
    mrc p15, 0, r1, c13, c0, 3
    mrc p15, 0, r2, c13, c0, 4
    mrc p15, 0, r3, c5, c0, 0
    mrc p15, 0, r4, c5, c0, 1
    mrc p15, 0, r5, c6, c0, 0
    mrc p15, 0, r6, c6, c0, 2
    add r7, r8, #SYSTEM
    stm r7!, {r0-r6}
    mrc p15, 0, r0, c2, c0, 1
    mrc p15, 0, r1, c13, c0, 1
    mrc p15, 0, r2, c3, c0, 0
    mrc p14, 6, r3, c1, c0, 0
    stm r7, {r0-r3}
    mov r0, #1
    mcr p15, 0, r0, c3, c0, 0
    add r0, r8, #BANKS
    .irp mode, 0x13, 0x17, 0x1b, 0x12
    cps #\mode
    mov r1, sp
    mov r2, lr
    mrs r3, spsr
    stm r0!, {r1-r3}
    .endr
    cps #FIQ
    mov r0, #0xf00000
    mcr p15, 0, r0, c1, c0, 2
    isb
    vmrs r0, fpexc
    str r0, [r8, #VFP_RIGHTS + 4]
    bl vfp_on
    vmrs r0, fpscr
    str r0, [r8, #STATUS]
    add r0, r8, #VFP
    vstm r0!, {d0-d15}
    vstm r0, {d16-d31}
    add r8, r8, #PIECE
    b piece

pieces_done:
    ldr r12, =PAGES
    ldr r11, =PAGES + PAGES_SIZE
4:  ldm r12!, {r0-r7}
    stm r13!, {r0-r7}
    cmp r12, r11
    blo 4b
    b case

    .ltorg
