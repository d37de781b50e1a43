@ The interrupt controller, the virtual timer, and interrupts that come at every sort of moment. Nothing that depends on
@ how long anything takes is printed.

    .include "runtime.inc"

    .equ GICD, 0x08000000
    .equ GICC, 0x08010000
    .equ TIMER, 27                  @ the virtual timer's interrupt

    .macro get reg, name
    ldr \reg, =\name
    ldr \reg, [\reg]
    .endm
    .macro put name, reg, scratch
    ldr \scratch, =\name
    str \reg, [\scratch]
    .endm
    .macro gic base, offset, value
    ldr r0, =\base + \offset
    ldr r1, =\value
    str r1, [r0]
    .endm
    .macro read name, base, offset
    ldr r0, =\base + \offset
    ldr r0, [r0]
    show \name, r0
    .endm

    .global main
main:
    push {r4-r12, lr}
    bl registers
    bl software
    bl priorities
    bl timer
    bl loops
    bl unmasking
    bl sleeping
    bl users
    bl exclusive
    pop {r4-r12, pc}

registers:
    push {lr}
    say "\nregisters"
    read ctlr, GICD, 0
    gic GICD, 0, 1
    read ctlr, GICD, 0
    .irp offset, 0x100, 0x104, 0x180, 0x184
    read enabled, GICD, \offset
    .endr
    gic GICD, 0x104, 0x00ff00ff
    read enabled, GICD, 0x104
    gic GICD, 0x184, 0x000f000f
    read enabled, GICD, 0x104
    read enabled, GICD, 0x184
    gic GICD, 0x184, 0xffffffff
    read enabled, GICD, 0x104
    gic GICD, 0x100, 1 << TIMER
    ldr r0, =GICD + 0x100
    ldr r0, [r0]
    and r0, r0, #1 << TIMER
    show timer, r0
    gic GICD, 0x204, 0x00010010     @ pending
    read pending, GICD, 0x204
    gic GICD, 0x284, 0x00000010
    read pending, GICD, 0x204
    gic GICD, 0x284, 0xffffffff
    read pending, GICD, 0x204
    gic GICD, 0x420, 0x10203040     @ priorities of 32 to 35
    read priority, GICD, 0x420
    gic GICD, 0x420, 0xf8700880     @ five bits, what all GICs have at least
    read priority, GICD, 0x420
    ldr r0, =GICD + 0x421
    mov r1, #0x50
    strb r1, [r0]
    ldrb r1, [r0, #1]
    show byte, r1
    read priority, GICD, 0x420
    gic GICD, 0x420, 0xa0a0a0a0
    gic GICD, 0xc08, 0xaaaaaaaa     @ edges
    read config, GICD, 0xc08
    gic GICD, 0xc08, 0
    read config, GICD, 0xc08
    read active, GICD, 0x300
    read active, GICD, 0x304
    gic GICC, 0, 1
    gic GICC, 4, 0xf0
    read cctlr, GICC, 0
    read pmr, GICC, 4
    gic GICC, 4, 0xff
    read rpr, GICC, 0x14
    read hppir, GICC, 0x18
    read iar, GICC, 0xc
    pop {pc}

@ What the handler does: it acknowledges, ends, notes number and SPSR, and if `way_out` is not 0 returns there, in
@ Supervisor mode.
take:
    push {lr}
    ldr r1, =GICC
    ldr r2, [r1, #0xc]
    put last, r2, r0
    get r0, count
    add r0, r0, #1
    put count, r0, r3
    ubfx r0, r2, #0, #10
    cmp r0, #TIMER
    bne 1f
    mov r0, #0
    mcr p15, 0, r0, c14, c3, 1
    isb
1:  mrs r0, spsr
    bic r0, r0, #0xf8000000         @ flags depend on the moment
    put spsr_then, r0, r3
    ldr r0, [r5, #52]
    put lr_then, r0, r3
    str r2, [r1, #0x10]
    get r0, way_out
    cmp r0, #0
    beq 2f
    str r0, [r5, #52]
    mov r0, #MODE_SVC | 0x80
    msr spsr_c, r0
    mov r0, #0
    put way_out, r0, r3
2:  pop {pc}

    .macro taken
    get r0, last
    show irq, r0
    get r0, spsr_then
    show spsr, r0
    get r0, count
    show count, r0
    .endm
    .macro taken_at
    taken
    get r0, lr_then
    show lr, r0
    .endm

    @ Software-generated interrupt n, to this CPU.
    .macro send n
    ldr r0, =GICD + 0xf00
    ldr r1, =0x02000000 + \n
    str r1, [r0]
    .endm

@ Interrupts by software: pending while masked, taken at once when unmasked.
software:
    push {lr}
    say "\nsoftware"
    ldr r0, =take
    put irq_routine, r0, r1
    gic GICD, 0x100, 0xffff
    send 3
    read hppir, GICC, 0x18
    cpsie i
    cpsid i
    taken_at
    send 4
    send 2
    send 4
    cpsie i
    cpsid i
    taken_at
    mrs r4, cpsr
    bic r4, r4, #0x80
    send 5
    msr cpsr_c, r4
    cpsid i
    taken_at
    send 6
    msr cpsr_c, #MODE_SYS
    cpsid i
    taken_at
    cps #MODE_SVC
    cpsie i
    send 7
    nop
    cpsid i
    taken
    gic GICD, 0x204, 1 << 8         @ SPI 40 by its pending bit
    gic GICD, 0x104, 1 << 8
    cpsie i
    nop
    cpsid i
    taken
    gic GICD, 0x184, 1 << 8
    @ Not while the distributor, the interface or the interrupt is off, or the priority masked.
    .macro kept base, offset, off, on
    gic \base, \offset, \off
    send 9
    cpsie i
    nop
    cpsid i
    get r0, count
    show kept, r0
    gic \base, \offset, \on
    cpsie i
    nop
    cpsid i
    get r0, count
    show taken, r0
    .endm
    kept GICD, 0, 0, 1
    kept GICC, 0, 0, 1
    kept GICC, 4, 0, 0xff
    gic GICD, 0x180, 1 << 9
    @ By an exception return
    send 1
    mov r0, #MODE_SVC
    msr spsr_cxsf, r0
    adr lr, 1f
    movs pc, lr
1:  nop
    cpsid i
    taken_at
    send 1
    ldr r2, =SCRATCH
    adr r0, 1f
    mov r1, #MODE_SYS
    stm r2, {r0, r1}
    rfeia r2
1:  nop
    cpsid i, #MODE_SVC
    taken_at
    send 1
    push {r3}
    adr r0, 1f
    push {r0}
    mov r0, #MODE_SVC
    msr spsr_cxsf, r0
    mov r3, sp
    ldm r3, {pc}^
1:  nop
    cpsid i
    add sp, sp, #8
    taken_at
    pop {pc}

    .ltorg

@ Which one comes first, and what it keeps out while it is active.
priorities:
    push {lr}
    say "\npriorities"
    ldr r0, =ordered
    put irq_routine, r0, r1
    mov r0, #0
    put order, r0, r1
    gic GICD, 0x400, 0x40c080a0     @ 0 to 3
    gic GICD, 0x404, 0x10203000     @ 4 to 7
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7
    send \n
    .endr
    cpsie i
    nop
    nop
    cpsid i
    get r0, order
    show order, r0
    @ Nested: the handler of 1 sends 7 and 0 and unmasks.
    ldr r0, =nested
    put irq_routine, r0, r1
    mov r0, #0
    put order, r0, r1
    send 1
    cpsie i
    nop
    cpsid i
    get r0, order
    show order, r0
    read rpr, GICC, 0x14
    read active, GICD, 0x300
    @ The priority mask lets through what is below it.
    ldr r0, =ordered
    put irq_routine, r0, r1
    mov r0, #0
    put order, r0, r1
    gic GICC, 4, 0x40
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7
    send \n
    .endr
    cpsie i
    nop
    cpsid i
    get r0, order
    show order, r0
    gic GICC, 4, 0xff
    cpsie i
    nop
    cpsid i
    get r0, order
    show order, r0
    gic GICD, 0x400, 0xa0a0a0a0
    gic GICD, 0x404, 0xa0a0a0a0
    ldr r0, =take
    put irq_routine, r0, r1
    pop {pc}

ordered:
    ldr r1, =GICC
    ldr r2, [r1, #0xc]
    ubfx r3, r2, #0, #10
    get r0, order
    add r0, r3, r0, lsl #4
    put order, r0, r4
    str r2, [r1, #0x10]
    bx lr

@ IRQs within IRQs: what an exception of IRQ mode would overwrite is kept on the stack.
nested:
    push {lr}
    ldr r1, =GICC
    ldr r4, [r1, #0xc]
    ubfx r3, r4, #0, #10
    get r0, order
    add r0, r3, r0, lsl #4
    put order, r0, r2
    cmp r3, #1
    bne 1f
    send 0
    send 7
    mrs r3, spsr
    push {r3, r4}
    read rpr, GICC, 0x14
    read hppir, GICC, 0x18
    push {lr}
    cpsie i
    nop
    nop
    cpsid i
    pop {lr}
    pop {r3, r4}
    msr spsr_cxsf, r3
1:  get r0, order
    add r0, r0, #8                  @ it ends
    put order, r0, r2
    ldr r1, =GICC
    str r4, [r1, #0x10]
    pop {pc}

    .ltorg

@ The virtual timer fires after about R0 ticks.
arm_timer:
    mcr p15, 0, r0, c14, c3, 0
    mov r0, #1
    mcr p15, 0, r0, c14, c3, 1
    isb
    bx lr
stop_timer:
    mov r0, #0
    mcr p15, 0, r0, c14, c3, 1
    isb
    bx lr

timer:
    push {lr}
    say "\ntimer"
    mrc p15, 0, r0, c14, c0, 0
    show frequency, r0
    bl stop_timer
    mrc p15, 0, r0, c14, c3, 1
    show control, r0
    mvn r0, #0
    mov r1, r0
    mcrr p15, 3, r0, r1, c14
    mov r0, #1
    mcr p15, 0, r0, c14, c3, 1
    isb
    mrc p15, 0, r0, c14, c3, 1
    show control, r0
    mrrc p15, 3, r0, r1, c14
    show compare, r0
    show compare, r1
    mov r0, #0
    mov r1, #0
    mcrr p15, 3, r0, r1, c14        @ in the past
    isb
    mrc p15, 0, r0, c14, c3, 1
    show control, r0
    ldr r0, =GICD + 0x200
    ldr r0, [r0]
    and r0, r0, #1 << TIMER
    show pending, r0
    mov r0, #3                      @ masked in the timer
    mcr p15, 0, r0, c14, c3, 1
    isb
    mrc p15, 0, r0, c14, c3, 1
    show control, r0
    ldr r0, =GICD + 0x200
    ldr r0, [r0]
    and r0, r0, #1 << TIMER
    show pending, r0
    mov r0, #1
    mcr p15, 0, r0, c14, c3, 1
    isb
    cpsie i
    nop
    cpsid i
    taken
    @ A negative value is in the past; a positive one comes.
    mvn r0, #99
    bl arm_timer
    cpsie i
    nop
    cpsid i
    taken
    ldr r0, =20000
    bl arm_timer
1:  mrc p15, 0, r0, c14, c3, 1
    tst r0, #4
    beq 1b
    show control, r0
    cpsie i
    nop
    cpsid i
    taken
    @ The counter never goes back.
    mov r4, #1000
    mrrc p15, 1, r2, r3, c14
1:  isb
    mrrc p15, 1, r0, r1, c14
    subs r6, r0, r2
    sbcs r6, r1, r3
    blo 2f
    mov r2, r0
    mov r3, r1
    subs r4, r4, #1
    bne 1b
2:  show left, r4
    pop {pc}

    .ltorg

    @ Arms the timer, lets `label` be where it leads, and goes on into a loop that nothing else ends.
    .macro until label, ticks=30000
    ldr r0, =\label
    put way_out, r0, r1
    ldr r0, =\ticks
    bl arm_timer
    cpsie i
    .endm
    @ LR lies between two labels
    .macro taken_within from, to
    taken
    get r0, lr_then
    ldr r1, =\from
    ldr r2, =\to
    cmp r0, r1
    cmphs r2, r0
    movhs r0, #1
    movlo r0, #0
    show within, r0
    .endm

@ Loops without an end, in one block and in many.
loops:
    push {lr}
    say "\nloops"
    until 2f
1:  b 1b
2:  taken_within 1b, 1b
    until 3f
1:  add r4, r4, #1
    cmp r4, #0
    bne 1b
    b 1b
3:  taken_within 1b, 3b
    until 4f
1:  b 2f
2:  b 3f
3:  b 1b
4:  taken_within 1b, 3b
    until 5f
1:  bl 2f
    b 1b
2:  bx lr
5:  taken_within 1b, 2b
    until 6f
1:  adr r4, 2f
    bx r4
2:  adr r4, 1b
    mov pc, r4
6:  taken_within 1b, 6b
    until 7f
    adr r4, 1f
    push {r4}
1:  ldr pc, [sp]
7:  pop {r4}
    taken_within 1b, 1b
    until 8f
1:  cpsid i
    cpsie i
    b 1b
8:  taken_within 1b, 8b
    until 9f
    mrs r4, cpsr
    orr r5, r4, #0x80
1:  msr cpsr_c, r5
    msr cpsr_c, r4
    b 1b
9:  taken_within 1b, 9b
    until 10f
    ldr r4, =SCRATCH
1:  ldm r4, {r6-r9}
    stm r4, {r6-r9}
    b 1b
10: taken_within 1b, 10b
    until 11f
1:  mrc p15, 0, r4, c1, c0, 0
    mcr p15, 0, r4, c13, c0, 4
    mrs r4, spsr
    b 1b
11: taken_within 1b, 11b
    until 12f
1:  .rept 100
    add r4, r4, #1
    .endr
    b 1b
12: taken_within 1b, 12b
    pop {pc}

    .ltorg

@ Masked until after it has fired, then unmasked in every way.
unmasking:
    push {lr}
    say "\nunmasking"
    .macro fired
    mov r0, #100
    bl arm_timer
77: mrc p15, 0, r0, c14, c3, 1
    tst r0, #4
    beq 77b
    .endm
    fired
    cpsie i
    nop
    cpsid i
    taken_at
    fired
    cpsie if
    nop
    cpsid if
    taken_at
    fired
    cpsie i, #MODE_SYS
    nop
    cpsid i, #MODE_SVC
    taken_at
    fired
    msr cpsr_c, #MODE_SVC
    nop
    cpsid i
    taken_at
    fired
    mov r0, #MODE_SVC
    msr cpsr_c, r0
    nop
    cpsid i
    taken_at
    fired
    mrs r0, cpsr
    bic r0, r0, #0x80
    msr cpsr_cxsf, r0
    nop
    cpsid i
    taken_at
    fired
    mov r0, #MODE_SVC
    cmp r0, #MODE_SVC
    msrne cpsr_c, r0
    get r1, count
    show count, r1
    mov r0, #MODE_SVC
    cmp r0, #MODE_SVC
    msreq cpsr_c, r0
    nop
    cpsid i
    taken_at
    fired
    mov r0, #MODE_SVC
    msr spsr_cxsf, r0
    adr lr, 1f
    subs pc, lr, #4
    nop
1:  nop
    cpsid i
    taken_at
    pop {pc}

@ WFI: woken by what is masked, and by what is not.
sleeping:
    push {lr}
    say "\nsleeping"
    ldr r0, =100000
    bl arm_timer
    wfi
    mrc p15, 0, r0, c14, c3, 1
    show control, r0
    cpsie i
    nop
    cpsid i
    taken
    ldr r0, =100000
    bl arm_timer
    cpsie i
1:  get r0, way_out
    wfi
    mrc p15, 0, r0, c14, c3, 1
    tst r0, #1
    bne 1b
    cpsid i
    taken
    send 1                          @ pending already: no sleep
    wfi
    wfi
    cpsie i
    nop
    cpsid i
    taken
    mov r4, #5
1:  ldr r0, =50000
    bl arm_timer
    wfi
    cpsie i
    nop
    cpsid i
    subs r4, r4, #1
    bne 1b
    taken
    sev
    wfe
    pop {pc}

@ User code interrupted, in both instruction sets; and on the way there.
users:
    push {lr}
    say "\nusers"
    ldr r0, =take_from_user
    put irq_routine, r0, r1
    ldr r0, =30000
    bl arm_timer
    user spins
    taken_within spins, spins_end
    ldr r0, =30000
    bl arm_timer
    user spins_thumb + 1
    taken_within spins_thumb, spins_thumb_end
    mov r0, #100
    bl arm_timer
77: mrc p15, 0, r0, c14, c3, 1
    tst r0, #4
    beq 77b
    user leaves                     @ pending: taken before its first instruction
    taken_at
    mov r0, #100
    bl arm_timer
77: mrc p15, 0, r0, c14, c3, 1
    tst r0, #4
    beq 77b
    user leaves_thumb + 1
    taken_at
    @ It goes on as if nothing had been: a sum over a loop with many interrupts.
    ldr r0, =take_often
    put irq_routine, r0, r1
    mov r0, #0
    put ticks, r0, r1
    mov r0, #2000
    bl arm_timer
    user sums
    bl stop_timer
    get r0, sum
    show sum, r0
    ldr r0, =take
    put irq_routine, r0, r1
    pop {pc}

take_from_user:
    push {lr}
    bl take
    ldr r0, =leaves
    mrs r1, spsr
    tst r1, #0x20
    ldrne r0, =leaves_thumb
    ldr r2, =0x0600fc00
    bic r1, r1, r2
    msr spsr_fsxc, r1
    str r0, [r5, #52]
    pop {pc}

take_often:
    ldr r1, =GICC
    ldr r2, [r1, #0xc]
    get r0, ticks
    add r0, r0, #1
    put ticks, r0, r3
    ldr r0, =2000
    mcr p15, 0, r0, c14, c3, 0
    isb
    str r2, [r1, #0x10]
    bx lr

spins:
    nop
    b spins
spins_end:
leaves:
    svc #LEAVE
    .thumb
    .balign 4
spins_thumb:
    movs r0, #1
    cmp r0, #1
    ittt eq
    moveq r1, #1
    moveq r2, #2
    moveq r3, #3
    b spins_thumb
spins_thumb_end:
    .balign 4
leaves_thumb:
    svc #LEAVE
    .arm
    .balign 4
sums:
    ldr r0, =2000000
    mov r1, #0
    mov r2, #1
1:  add r1, r1, r2, ror #7
    adds r2, r2, r1
    eorcs r2, r2, #0x1d
    subs r0, r0, #1
    bne 1b
    eor r1, r1, r2
    ldr r3, =sum
    str r1, [r3]
    ldr r3, =ticks
2:  ldr r0, [r3]                    @ there were interrupts, or there are now
    cmp r0, #10
    blo 2b
    mov r0, #0
    svc #LEAVE

    .ltorg

@ Kernel code with exclusives under interrupts.
exclusive:
    push {lr}
    say "\nexclusive"
    ldr r0, =take_often
    put irq_routine, r0, r1
    mov r0, #0
    put ticks, r0, r1
    mov r0, #2000
    bl arm_timer
    ldr r4, =SCRATCH
    mov r0, #0
    str r0, [r4]
    mov r5, #0
    ldr r6, =ticks
    cpsie i
1:  ldrex r0, [r4]
    add r0, r0, #1
    strex r1, r0, [r4]
    cmp r1, #0
    bne 1b
    add r5, r5, #1
    ldr r0, [r6]
    cmp r0, #30
    blo 1b
    cpsid i
    bl stop_timer
    ldr r0, [r4]
    sub r0, r0, r5
    show lost, r0
    @ Without a load before, and after a clear, nothing is stored.
    clrex
    mov r0, #7
    strex r1, r0, [r4]
    show failed, r1
    ldrex r0, [r4]
    clrex
    strex r1, r0, [r4]
    show failed, r1
    ldrexb r0, [r4]
    strexb r1, r0, [r4]
    show failed, r1
    ldrexd r0, r1, [r4]
    strexd r2, r0, r1, [r4]
    show failed, r2
    ldrex r0, [r4]
    strexne r1, r0, [r4]
    streq r0, [r4]
    clrex
    pop {pc}

    .ltorg

    .section .data
last:
    .word 0
count:
    .word 0
spsr_then:
    .word 0
lr_then:
    .word 0
way_out:
    .word 0
order:
    .word 0
ticks:
    .word 0
sum:
    .word 0
    .section .text
