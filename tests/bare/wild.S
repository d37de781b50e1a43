@ A kernel that does all that a kernel may do and should not, in any order: operations that the development machine has
@ drawn (crates/prove/src/wild), behind the image. They come in chunks. What one leaves behind, tables, masks, modes,
@ the next one meets. Parameter 0 is how many times all of them are done.
@
@ An exception in the midst of a chunk is no end of it: the instruction is left out. Where that happens too often, where
@ nothing is left to go on from, or where the timer has ended what does not end by itself, all that this file needs is
@ put right, and the next chunk comes. Handlers use no stack: operations change those of all modes.

    .include "runtime.inc"

    @ What guests write to is not in pages with code, as in clock.inc.
    .section .data
    .balign 4096
    .section .text

    .equ GICD, 0x08000000
    .equ GICC, 0x08010000
    .equ FIRST_LEVEL, TABLES        @ four tables
    .equ SECOND_LEVEL, TABLES + 0x10000     @ sixteen tables
    .equ VICTIMS, 0x40600000        @ 256 pages, each with a function
    .equ END, 0x41000000            @ of RAM
    .equ PATIENCE, 20000            @ ticks of the counter for a chunk, 0.3 ms
    .equ MOST, 24                   @ exceptions in a chunk
    .equ END_OF_CHUNK, 0xe0         @ numbers of supervisor calls
    .equ KERNEL_AGAIN, 0xe1

    @ What stands before a chunk's words.
    .equ CHUNK_WORDS, 0
    .equ CHUNK_AT, 4                @ where it runs
    .equ CHUNK_MEMORY, 8            @ where that is in memory
    .equ CHUNK_BEFORE, 12           @ bit 0: MMU on, with the table of bits 9:8; bit 1: all is put right
    .equ CHUNK_CODE, 16

    .global main
main:
    @ Where nothing is, a chunk ends: what runs astray comes back soon.
    ldr r0, =0xef000000 + END_OF_CHUNK
    ldr r4, =SCRATCH
    ldr r5, =SCRATCH + 0x100000
    bl fill
    ldr r4, =SECOND_LEVEL + 0x4000
    ldr r5, =END
    bl fill
    ldr r4, =image_end              @ and behind the last chunk
2:  ldr r1, [r4]
    add r4, r4, r1, lsl #2
    add r4, r4, #CHUNK_CODE
    cmp r1, #0
    bne 2b
    ldr r5, =STACK_FIQ - 0x1000
    bl fill
    ldr r4, =VICTIMS
    mov r5, #0
1:  str r5, [r4]
    ldr r0, =0xe3a00000             @ MOV r0, #n
    orr r0, r0, r5
    ldr r1, =0xe12fff1e             @ BX LR
    str r0, [r4, #0x40]
    str r1, [r4, #0x44]
    add r4, r4, #0x1000
    add r5, r5, #1
    cmp r5, #256
    blo 1b
    bl make_tables
    b begin

fill:
    str r0, [r4], #4
    cmp r4, r5
    blo fill
    bx lr

@ Four first-level tables, all alike: this file's memory and its devices, RAM once more at 0xC0000000, and windows with
@ small pages.
make_tables:
    push {lr}
    ldr r4, =FIRST_LEVEL
    mov r0, #0
    add r1, r4, #0x10000
1:  str r0, [r4], #4
    cmp r4, r1
    blo 1b
    ldr r4, =SECOND_LEVEL           @ the victims, a page of each by turns: AP = 0b011
    mov r5, #0
2:  and r0, r5, #0xff
    ldr r1, =VICTIMS + 0x3e
    orr r0, r1, r0, lsl #12
    tst r5, #0x700
    orrne r0, r0, #0x800            @ most are not global
    str r0, [r4, r5, lsl #2]
    add r5, r5, #1
    cmp r5, #0xf00                  @ the last table is empty
    blo 2b
    bl own_entries
    ldr r4, =windows
3:  ldr r5, [r4], #4                @ megabyte; second-level tables from the first on
    ldr r6, [r4], #4
    ldr r7, [r4], #4                @ how many
    cmp r7, #0
    popeq {pc}
4:  ldr r0, =SECOND_LEVEL + 1
    add r0, r0, r6, lsl #10
    bl in_all_tables
    add r5, r5, #1
    add r6, r6, #1
    subs r7, r7, #1
    bne 4b
    b 3b

@ R0 = an entry for megabyte R5 of all tables. Changes R1, R2.
in_all_tables:
    ldr r1, =FIRST_LEVEL
    add r1, r1, r5, lsl #2
    add r2, r1, #0x10000
1:  str r0, [r1]
    add r1, r1, #0x4000
    cmp r1, r2
    blo 1b
    bx lr

@ What this file cannot do without.
own_entries:
    push {r4-r6, lr}
    mov r6, #0
1:  ldr r5, =0x400
    add r5, r5, r6
    ldr r0, =0x40000c0e
    orr r0, r0, r6, lsl #20
    bl in_all_tables
    add r5, r5, #0x800              @ 0xC00 …
    bl in_all_tables
    add r6, r6, #1
    cmp r6, #8
    blo 1b
    ldr r5, =0x080
    ldr r0, =GICD + 0xc16
    bl in_all_tables
    ldr r5, =0x090
    ldr r0, =UART + 0xc16
    bl in_all_tables
    ldr r0, =high_table + 1         @ the high vectors
    ldr r5, =0xfff
    bl in_all_tables
    ldr r0, =wild_vectors + 0x3e
    ldr r1, =high_table + 0xf0 * 4
    str r0, [r1]
    pop {r4-r6, pc}

@ All is put right, and the MMU is off.
sane:
    push {lr}
    ldr r0, =0x00c50078
    mcr p15, 0, r0, c1, c0, 0
    isb
    mov r0, #0
    mcr p15, 0, r0, c2, c0, 2
    mcr p15, 0, r0, c14, c3, 1
    ldr r0, =wild_vectors
    mcr p15, 0, r0, c12, c0, 0
    ldr r0, =FIRST_LEVEL
    mcr p15, 0, r0, c2, c0, 0
    mcr p15, 0, r0, c2, c0, 1
    ldr r0, =0x55555555
    mcr p15, 0, r0, c3, c0, 0
    isb
    bl own_entries
    mov r0, #0
    mcr p15, 0, r0, c8, c7, 0
    dsb
    isb
    @ The interrupt controller: the timer's interrupt and no other.
    ldr r0, =GICD
    mov r1, #1
    str r1, [r0]
    mvn r2, #0
    str r2, [r0, #0x180]
    str r2, [r0, #0x184]
    str r2, [r0, #0x280]
    str r2, [r0, #0x380]
    mov r2, #0
    str r2, [r0, #0x418]            @ priorities of 24 to 27
    bl watch
    mov r0, #0
    mcr p15, 0, r0, c14, c3, 1
    pop {pc}

@ The timer will end what begins now.
watch:
    ldr r0, =PATIENCE
    mcr p15, 0, r0, c14, c3, 0
    mov r0, #1
    mcr p15, 0, r0, c14, c3, 1
    isb
    @ Which takes an interrupt controller that lets it through.
    ldr r0, =GICD
    mov r1, #1
    str r1, [r0]
    ldr r2, =1 << 27
    str r2, [r0, #0x100]
    ldr r0, =GICC
    mov r2, #0xf0
    str r2, [r0, #4]
    str r1, [r0]
    bx lr

begin:
    ldr r0, =image_end
    put next_chunk, r0, r1
    bl sane
    b go_on

@ The next chunk, from any state that lets this be executed.
go_on:
    cpsid aif, #MODE_SVC
    ldr sp, =STACK_SVC
    get r0, chunks
    add r1, r0, #1
    put chunks, r1, r2
    tst r0, #0x3f
    bne 1f
    bl sane
    get r0, chunks
    get r1, exceptions
    get r2, recoveries
    say "at"
    show chunks, r0
    show exceptions, r1
    show recoveries, r2
    say "\n"
1:  mov r0, #MOST
    put budget, r0, r1
    get r4, next_chunk
    ldr r5, [r4, #CHUNK_WORDS]
    cmp r5, #0
    beq pass_over
    add r0, r4, r5, lsl #2
    add r0, r0, #CHUNK_CODE
    put next_chunk, r0, r1
    ldr r6, [r4, #CHUNK_BEFORE]
    tst r6, #2
    blne sane
    ldr r7, [r4, #CHUNK_MEMORY]
    add r8, r4, #CHUNK_CODE
2:  ldr r0, [r8], #4
    str r0, [r7], #4
    subs r5, r5, #1
    bne 2b
    dsb
    mcr p15, 0, r0, c7, c5, 0
    mcr p15, 0, r0, c7, c5, 6
    dsb
    isb
    tst r6, #1
    beq 3f
    ubfx r0, r6, #8, #2
    ldr r1, =FIRST_LEVEL
    add r0, r1, r0, lsl #14
    mcr p15, 0, r0, c2, c0, 0
    ldr r0, =0x55555555
    mcr p15, 0, r0, c3, c0, 0
    mov r0, #0
    mcr p15, 0, r0, c2, c0, 2
    mcr p15, 0, r0, c8, c7, 0
    dsb
    isb
    ldr r0, =0x00c51879
    set_sctlr r0
3:  bl watch
    ldr r12, [r4, #CHUNK_AT]
    mov lr, r12
    ldr r0, =registers
    ldm r0, {r0-r11}
    cpsie i
    bx r12

@ All chunks are done.
pass_over:
    get r0, passes
    add r0, r0, #1
    put passes, r0, r1
    get r1, parameters
    cmp r0, r1
    blo begin
    bl sane
    get r0, chunks
    get r1, exceptions
    get r2, recoveries
    say "survived"
    show chunks, r0
    show exceptions, r1
    show recoveries, r2
    say "\n"
    b power_off

recover:
    setend le
    cpsid aif, #MODE_SVC
    ldr sp, =STACK_SVC
    bl sane
    get r0, recoveries
    add r0, r0, #1
    put recoveries, r0, r1
    b go_on

    @ R0 to R2 and LR are kept at the address in SP; an exception more. R1 = SPSR.
    .macro enter frame
    ldr sp, =\frame
    stm sp, {r0-r2, lr}
    ldr r0, =exceptions
    ldr r1, [r0]
    add r1, r1, #1
    str r1, [r0]
    ldr r0, =budget
    ldr r1, [r0]
    subs r1, r1, #1
    str r1, [r0]
    bmi recover
    mrs r1, spsr
    tst r1, #0x20                   @ in Thumb state, nothing is known of the instruction
    bne recover
    .endm

on_undefined:
    enter frame_undefined
    ldm sp, {r0-r2}
    movs pc, lr

on_call:
    enter frame_call
    ldr r0, [lr, #-4]
    and r0, r0, #0xff
    cmp r0, #END_OF_CHUNK
    beq go_on
    cmp r0, #KERNEL_AGAIN
    biceq r1, r1, #0x20c            @ not with big-endian data
    orreq r1, r1, #MODE_SVC
    msreq spsr_cxsf, r1
    ldm sp, {r0-r2}
    movs pc, lr

on_prefetch_abort:
    enter frame_abort
    mrc p15, 0, r0, c5, c0, 1
    ubfx r1, r0, #0, #4
    cmp r1, #2                      @ a breakpoint
    bne recover
    ldm sp, {r0-r2}
    movs pc, lr

on_data_abort:
    enter frame_abort
    ldm sp, {r0-r2}
    subs pc, lr, #4

on_interrupt:
    enter frame_interrupt
    ldr r0, =GICC
    ldr r1, [r0, #0xc]
    str r1, [r0, #0x10]
    ubfx r2, r1, #0, #10
    cmp r2, #27
    beq recover
    ldm sp, {r0-r2}
    subs pc, lr, #4

    .ltorg

    .balign 4096
wild_vectors:
    b recover
    b 1f
    b 2f
    b 3f
    b 4f
    b recover
    b 5f
    b recover
    @ By any address of this page.
1:  ldr pc, =on_undefined
2:  ldr pc, =on_call
3:  ldr pc, =on_prefetch_abort
4:  ldr pc, =on_data_abort
5:  ldr pc, =on_interrupt
    .ltorg
    .balign 4096

    .section .data
    .balign 1024
high_table:
    .fill 256, 4, 0
windows:
    .word 0x500, 0, 4, 0xbef, 4, 2, 0xc10, 6, 2, 0xdf0, 8, 7, 0, 0, 0
registers:
    .word SCRATCH, SCRATCH + 0x1000, 0x50003000, 0xc0601000, SCRATCH + 0x2000, 0xf1801000, 0x40, UART + 0x18
    .word 0xffffffff, VICTIMS + 0x40, 0x80000000, 0x50010040
next_chunk:
    .word 0
chunks:
    .word 0
passes:
    .word 0
budget:
    .word 0
exceptions:
    .word 0
recoveries:
    .word 0
    @ Handlers leave SP at these frames, and SRS and STM store around them.
    .fill 64, 4, 0
frame_undefined:
    .word 0, 0, 0, 0
    .fill 64, 4, 0
frame_call:
    .word 0, 0, 0, 0
    .fill 64, 4, 0
frame_abort:
    .word 0, 0, 0, 0
    .fill 64, 4, 0
frame_interrupt:
    .word 0, 0, 0, 0
    .fill 64, 4, 0
    .section .text
