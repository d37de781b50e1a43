@ More attacks, above all on what Spica keeps in a guest's address space, on what lies beyond the guest's own memory,
@ and on devices: parameter 0 says which. See hostile.S.

    .include "runtime.inc"
    .include "attack.inc"

    .equ MIRROR, 0xf2000000         @ the return mirror, of 40 megabytes
    .equ KERNEL, 0xc0000000         @ where RAM is once more, so that code has a return mirror
    .equ BIAS, KERNEL - 0x40000000
    .equ WINDOW, 0x50000000
    .equ LEVEL2, 0x40308000
    .equ MEGABYTES, 16              @ of RAM

@ All of RAM once more at KERNEL, nothing where the code cache and the return mirror are; MMU on.
kernel_tables:
    push {lr}
    bl identity
    bl quiet
    ldr r0, =TABLES + (KERNEL >> 18)
    ldr r1, =0x40000c0e
    mov r2, #MEGABYTES
1:  str r1, [r0], #4
    add r1, r1, #0x100000
    subs r2, r2, #1
    bne 1b
    ldr r0, =TABLES + (VCPU_PAGE >> 18)
    mov r1, #0
    mov r2, #0x30
2:  str r1, [r0], #4
    subs r2, r2, #1
    bne 2b
    bl mmu_on
    pop {pc}

    @ Goes on at KERNEL.
    .macro go_up
    ldr r0, =99f + BIAS
    bx r0
99:
    .endm

@ R0 = an address in one of Spica's places, by R0: the code cache, the mirror, the image, the pool, windows to devices.
    .macro spicas_place
    ldr r1, =spicas
    ubfx r2, r0, #0, #3
    add r1, r1, r2, lsl #3
    ldm r1, {r1, r2}                @ start, mask
    and r2, r2, r0, lsr #3
    add r0, r1, r2
    bic r0, r0, #3
    .endm

@ 0: stores of all kinds into all of Spica's places.
stores:
    bl fill_memory
    bl kernel_tables
    next_is 3f
2:  bl mmu_on
    bl random
    spicas_place
    mov r4, r0
    mvn r5, #0
    ldr r6, =0xe7f000f0             @ UDF
    get r0, attempts
    tst r0, #3
    bne 1f
    str r6, [r4]
    b 3f
1:  tst r0, #1
    beq 1f
    strb r5, [r4, #1]
    stm r4, {r5, r6}
    b 3f
1:  ldrex r7, [r4]
    strex r7, r6, [r4]
    svc #0
3:  next_is 3b
    again 2b, 4000
    b survived

@ 1: jumps into all of Spica's places, by every kind of branch, from code with a return mirror.
jumps:
    bl fill_memory
    bl kernel_tables
    next_is 3f
2:  bl mmu_on
    bl random
    spicas_place
    mov r4, r0
    bl random
    ubfx r5, r0, #4, #2
    go_up
    mov lr, r4
    cmp r5, #0
    bxeq lr
    cmp r5, #1
    moveq pc, r4
    cmp r5, #2
    beq 1f
    push {r4}
    pop {pc}
1:  blx r4
    svc #0
3:  next_is 3b
    again 2b, 4000
    b survived

@ 2: returns to all sorts of addresses from code with a return mirror, those above all that the mirror's distance leads
@ into Spica's places. Even ones: odd ones are Thumb's (hostile.S, 22). Parameter 1 says how many.
returns:
    bl fill_memory
    bl kernel_tables
    next_is 3f
2:  bl mmu_on
    bl random
    get r1, attempts
    tst r1, #1
    bne 1f
    spicas_place
    ldr r1, =MIRROR - 0xbf000000
    sub r0, r0, r1
1:  bic r4, r0, #1
    bl random
    ubfx r5, r0, #4, #2
    go_up
    mov lr, r4
    cmp r5, #0
    bxeq lr
    cmp r5, #1
    beq 1f
    push {r0, r4}
    ldmne sp!, {r0, pc}
1:  push {r4}
    ldr pc, [sp], #4
3:  next_is 3b
    get r0, attempts
    add r0, r0, #1
    put attempts, r0, r1
    get r1, "parameters + 4"
    cmp r0, r1
    blo 2b
    b survived

@ 3: every megabyte of the physical address space mapped and read, and what is not the guest's written: Spica's memory
@ and that of others is there, too. By sections, then by pages; then tables that are there.
reach:
    bl identity
    bl quiet
    next_is 4f
2:  get r4, attempts
    cmp r4, #4096
    bhs 6f
    ldr r5, =0xc0e
    orr r5, r5, r4, lsl #20
    ldr r6, =TABLES + (WINDOW >> 18)
    str r5, [r6]
    bl mmu_on
    ldr r7, =WINDOW + 0x8000
    b 7f
6:  sub r4, r4, #4096
    ldr r5, =0x43e
    orr r5, r5, r4, lsl #20
    orr r5, r5, #0x13000
    ldr r6, =LEVEL2
    str r5, [r6]
    ldr r5, =LEVEL2 + 1
    tst r4, #1
    orrne r5, r5, r4, lsl #20       @ now and then, a table that is there
    ldr r6, =TABLES + (WINDOW >> 18)
    str r5, [r6]
    bl mmu_on
    ldr r7, =WINDOW
7:  mcr p15, 0, r7, c8, c7, 1
    dsb
    isb
    sub r0, r4, #0x400
    cmp r0, #MEGABYTES
    blo 4f
    cmp r4, #0x90                   @ not the console, which tests read
    beq 4f
    ldr r0, [r7]
    ldr r1, =0xbadbadba
    str r1, [r7]
    str r1, [r7, #0x40]
    ldr r2, [r7]
    cmp r1, r2
    bne 4f
    show reached, r4                @ memory where there is none
4:  next_is 4b
    again 2b, 8192
    b survived

@ 4: tables that change without maintenance: what is read is the old page's or the new one's, or a fault; tables are
@ mapped, and changed, through themselves.
unmaintained:
    bl identity
    bl quiet
    ldr r0, =LEVEL2 + 1
    ldr r1, =TABLES + (WINDOW >> 18)
    str r0, [r1]
    ldr r4, =0x40400000             @ sixteen pages, each with its number
    mov r5, #0
1:  str r5, [r4]
    add r4, r4, #0x1000
    add r5, r5, #1
    cmp r5, #16
    blo 1b
    ldr r0, =LEVEL2 + 0x3f * 4      @ the last page of 64 is the table itself
    ldr r1, =LEVEL2 + 0x43e
    str r1, [r0]
    bl mmu_on
    next_is 3f
2:  bl random
    ubfx r4, r0, #8, #4             @ which of sixteen entries
    ubfx r5, r0, #12, #4            @ becomes which page
    ldr r6, =0x4040043e
    orr r6, r6, r5, lsl #12
    tst r0, #0x70000
    moveq r6, #0                    @ or nothing
    tst r0, #0x380000
    ldreq r6, =0x6000043e           @ or what is not the guest's
    ldr r7, =LEVEL2
    tst r0, #0x1000000
    ldrne r7, =WINDOW + 0x3f000
    str r6, [r7, r4, lsl #2]
    ldr r7, =WINDOW
    add r7, r7, r4, lsl #12
    tst r0, #0x6000000
    mcreq p15, 0, r7, c8, c7, 1     @ maintained now and then
    ldr r0, [r7]
    cmp r0, #16
    bhs 8f
    @ What was written there must be there by another way.
    str r0, [r7]
    ldr r1, =0x40400000
    add r1, r1, r0, lsl #12
    ldr r1, [r1]
    cmp r0, r1
    bne 8f
    b 5f
3:  next_is 3b
    bl mmu_on
5:  again 2b, 6000
    b survived
8:  say "\nneither the old page nor the new one\n"
    b power_off

@ 5: virtio devices, all that are plugged: queues anywhere, rings and chains of nonsense.
virtio:
    next_is 4f
2:  get r0, attempts
    and r0, r0, #31
    ldr r4, =0x0a000000
    add r4, r4, r0, lsl #9
    ldr r0, [r4, #8]                @ DeviceID
    cmp r0, #0
    beq 4f
    mov r0, #0
    str r0, [r4, #0x70]
    mov r0, #3
    str r0, [r4, #0x70]
    bl random
    str r0, [r4, #0x24]             @ features: any of the lower ones
    mov r1, #0
    str r1, [r4, #0x24]
    tst r0, #1
    strne r0, [r4, #0x20]
    mov r1, #1
    str r1, [r4, #0x24]
    str r1, [r4, #0x20]             @ VERSION_1
    mov r0, #0xb
    str r0, [r4, #0x70]
    mov r8, #0                      @ queues
5:  str r8, [r4, #0x30]
    bl random
    ldr r1, =queue_sizes
    and r2, r0, #7
    ldr r1, [r1, r2, lsl #2]
    str r1, [r4, #0x38]
    mov r9, #0x80                   @ desc, driver, device
6:  bl random
    ldr r1, =ring_places
    and r2, r0, #7
    ldr r1, [r1, r2, lsl #2]
    str r1, [r4, r9]
    tst r0, #0x7000
    movne r0, #0
    add r2, r9, #4
    str r0, [r4, r2]
    add r9, r9, #0x10
    cmp r9, #0xb0
    blo 6b
    mov r0, #1
    str r0, [r4, #0x44]
    add r8, r8, #1
    cmp r8, #3
    blo 5b
    mov r0, #0xf
    str r0, [r4, #0x70]
    @ Rings: a page of nonsense that is nearly sensible, at each of the first four places.
    ldr r5, =SCRATCH
    ldr r6, =SCRATCH + 0x4000
7:  bl random
    ldr r1, =buffer_places
    ubfx r2, r0, #3, #3
    ldr r1, [r1, r2, lsl #2]
    tst r0, #0x700
    eoreq r1, r1, r0
    mov r2, #0
    tst r0, #0xf000
    moveq r2, r0
    and r3, r0, #0x3f0000
    lsr r3, r3, #14
    tst r0, #0xc00000
    mvneq r3, r3
    ubfx r7, r0, #24, #3            @ flags
    ubfx r10, r0, #27, #4
    orr r7, r7, r10, lsl #16
    stm r5!, {r1, r2, r3, r7}
    cmp r5, r6
    blo 7b
    mov r8, #0
9:  str r8, [r4, #0x50]
    add r8, r8, #1
    cmp r8, #4
    blo 9b
    ldr r0, [r4, #0x60]
    str r0, [r4, #0x64]
    bl random
    and r1, r0, #0xfc
    add r1, r1, #0x100
    str r0, [r4, r1]                @ its own settings
4:  next_is 4b
    again 2b, 3000
    b survived

@ 6: the interrupt controller: any value in any register, with interrupts open; none of them is served as it should be.
controller:
    next_is 4f
2:  bl random
    mov r4, r0
    bl random
    ldr r1, =GICD
    tst r0, #0x10000
    ldrne r1, =GICC
    ubfx r2, r0, #2, #10
    tst r0, #0x20000
    ubfxeq r2, r2, #0, #5           @ the first ones more often
    str r4, [r1, r2, lsl #2]
    tst r0, #0x40000
    beq 3f
    ldr r1, =GICD
    mov r2, #1
    str r2, [r1]
    ldr r1, =GICC
    mov r2, #0xf0
    str r2, [r1, #4]
    mov r2, #1
    str r2, [r1]
    ldr r1, =GICD
    and r2, r4, #15
    orr r2, r2, #0x02000000
    str r2, [r1, #0xf00]            @ an interrupt to itself
3:  cpsie aif
    nop
    cpsid aif
    ldr r1, =GICC
    ldr r2, [r1, #0xc]
    tst r4, #1
    strne r2, [r1, #0x10]
    streq r4, [r1, #0x10]
4:  next_is 4b
    again 2b, 8000
    b survived

@ 7: the firmware is asked to suspend, with all sorts of arguments.
suspends:
    bl enable_timer
    next_is 4f
2:  mrrc p15, 1, r0, r1, c14
    ldr r2, =500
    adds r0, r0, r2
    adc r1, r1, #0
    mcrr p15, 3, r0, r1, c14
    mov r0, #1
    mcr p15, 0, r0, c14, c3, 1
    isb
    bl random
    mov r1, r0
    bl random
    mov r2, r0
    mvn r3, r0
    ldr r0, =0x84000001
    tst r1, #1
    orrne r0, r0, #0x40000000
    smc #0
    tst r1, #2
    beq 4f
    cpsie i
    nop
    cpsid i
4:  next_is 4b
    again 2b, 600
    b survived

@ 8: masked for ever, with the costliest of operations in a row.
masked:
    bl kernel_tables
    cpsid aif
1:  ldr r0, =TABLES
    bl mmu_on
    mvn r1, #0
    mcr p15, 0, r1, c3, c0, 0
    ldr r1, =0x20c50079
    set_sctlr r1
    mcr p15, 0, r0, c7, c5, 0
    b 1b

@ 9: supervisor calls of random numbers in code with a return mirror: one exception each.
calls:
    bl kernel_tables
    next_is 3f
2:  ldr r4, =SCRATCH
    bl random
    lsr r0, r0, #8
    get r1, attempts
    and r2, r1, #31
    tst r1, #32
    movne r0, #1
    lslne r0, r0, r2
    bic r0, r0, #0xff000000
    orr r0, r0, #0xef000000
    ldr r1, =0xe12fff1e
    stm r4, {r0, r1}
    dsb
    mcr p15, 0, r0, c7, c5, 0
    mcr p15, 0, r0, c7, c5, 6
    dsb
    isb
    bl mmu_on
    ldr r4, =SCRATCH + BIAS
    ldr lr, =4f
    bx r4
3:  next_is 3b
    again 2b, 600
    get r0, faults
    show exceptions, r0
    b survived
4:  say "\na supervisor call came back"
    b power_off

    .ltorg

@ 10: what a kernel can do to itself that runs in place, where RAM begins: it executes a page of short runs, with what
@ is sensitive among them, data, and branches. It jumps into their middle, and to data; it rewrites the page while it
@ runs, by words and by halves, with maintenance and without; it jumps to words of the stubs that branches in the page
@ lead to, and stores there: to every other page, as the rest is the vCPU page, whose words it may spoil for itself.
    .equ STUBS, 0x3fa00000          @ six megabytes in front of RAM
    .equ RUNS, SCRATCH + 0x8000
in_place:
    bl fill_memory
    bl identity
    bl quiet
    ldr r0, =TABLES + (STUBS >> 18) @ where the guest maps nothing, all of its stores fault
    mov r1, #0
    mov r2, #0
    mov r3, #0
    mov r4, #0
    stm r0, {r1-r4}
    mov r4, #0                      @ a page of random words of `runs`
    ldr r5, =RUNS
1:  bl a_word_of_runs
    str r0, [r5, r4]
    add r4, r4, #4
    cmp r4, #0x1000
    blo 1b
    next_is 9f
2:  bl mmu_on
    ldr lr, =9f
    bl random
    mov r6, r0
    bl random
    ubfx r7, r0, #5, #10            @ a word of a page
    ldr r4, =RUNS
    add r4, r4, r7, lsl #2
    bl random
    ubfx r8, r0, #7, #15            @ one of 128 KiB, of which the first pages have stubs
    ldr r5, =STUBS
    add r5, r5, r8, lsl #2
    orr r5, r5, #0x1000
    ubfx r9, r0, #3, #2             @ one of a stub's first
    adr r8, 3f
    and r6, r6, #7
    ldr lr, =9f
    ldr pc, [r8, r6, lsl #2]
3:  .word 10f, 10f, 11f, 12f, 13f, 14f, 15f, 16f
10: bx r4                           @ into the middle of a run
11: ldr r0, [r4]                    @ into a stub
    lsr r1, r0, #24
    cmp r1, #0xea
    bne 10b
    lsl r0, r0, #8
    add r0, r4, r0, asr #6
    add r0, r0, #8
    ldr r1, =STUBS
    sub r1, r0, r1
    cmp r1, #0x400000
    addlo r0, r0, r9, lsl #2
    bx r0
12: ldr pc, [pc, #-4]               @ to a word that is no address
    .word 0xe10f0000
13: bl a_word_of_runs               @ rewritten, and known
    str r0, [r4]
    mcr p15, 0, r4, c7, c11, 1
    dsb
    mcr p15, 0, r4, c7, c5, 1
    mcr p15, 0, r4, c7, c5, 6
    dsb
    isb
    bx r4
14: bl a_word_of_runs               @ rewritten half, and not known
    strh r0, [r4]
    bx r4
15: ldr r0, =0xe7f000f0             @ stores that must not get anywhere
    str r0, [r5]
    b 17f
16: mvn r0, #0
    strb r0, [r5, #1]
17: show reached, r5
    svc #0
9:  next_is 9b
    again 2b, 500
    b survived

@ 11: a jump to a page where stubs will be some day. Spica says that the guest ran astray.
behind_stubs:
    bl identity
    next_is survived
    ldr r0, =STUBS + 0x3a1ffc
    bx r0

@ R0 = a word of `runs`. Keeps R4 to R11.
a_word_of_runs:
    push {lr}
    bl random
    ubfx r0, r0, #3, #5
    ldr r1, =runs
    ldr r0, [r1, r0, lsl #2]
    pop {pc}

    .ltorg

    .section .data
    .balign 4
attacks:
    .word stores, jumps, returns, reach, unmaintained, virtio, controller, suspends, masked, calls
    .word in_place, behind_stubs
@ Spica's places: start, and a mask for what is added.
spicas:
    .word VCPU_PAGE, 0x7fffff, CODE, 0xffffc, MIRROR, 0xffffff, MIRROR + 0x1000000, 0x1ffffc
    .word 0xf6000000, 0xfffff, 0xf6100000, 0x3ffffff, 0xfc000000, 0xffffff, 0xf1801000, 0x1ffffff
@ What is in the page of attack 10.
runs:
    mrs r0, cpsr
    msr cpsr_f, r0
    cpsid i
    cpsie i
    mrs r1, spsr
    msr spsr_fsc, r1                @ without E
    mrc p15, 0, r0, c13, c0, 3
    mcr p15, 0, r0, c13, c0, 3
    mrc p15, 0, r0, c3, c0, 0
    mrc p15, 0, r2, c1, c0, 0
    mcr p15, 0, r2, c7, c10, 5
    ldrt r3, [r4]
    strt r3, [r4], #4
    stm r4, {sp, lr}^
    mrs r3, cpsr
    mrs r2, cpsr
    add r0, r0, #1
    add r1, r1, r0
    ldr r0, [pc, #8]
    ldr r1, [pc, #-20]
    adds r2, r2, #3
    mov r3, pc
    b . + 60
    b . + 40
    bne . + 12
    bx lr
    bxeq lr
    svc #0
    svc #0x21
    .word 0x00000007
    .word 0x64726f77
    udf #3
queue_sizes:
    .word 8, 16, 256, 1, 0, 3, 0x8000, 0xffffffff
ring_places:
    .word SCRATCH, SCRATCH + 0x1000, SCRATCH + 0x2000, SCRATCH + 0x3000, 0x40fffff0, 0x41000000, 0, SCRATCH + 0x123
buffer_places:
    .word SCRATCH + 0x8000, 0x40ffff00, 0x40fffffc, 0x41000000, 0x60000000, 0, UART, SCRATCH
    .section .text
