@ Interrupts: from the device to the handler and back.

    .include "common.inc"
    .text

@ More rounds of waiting than any of these needs: then the interrupt is not coming, and the count of events says so.
    .equ TIMER_PATIENCE, 1 << 25
    .equ PATIENCE, 1 << 22

@ A timer that rings every 50 us and is armed again by its handler, over the empty loop of three instructions. The loops
@ are subtracted; what is left is the interrupts'.
    .equ RINGS, 2000
    bench irq-timer, irq_timer, events=1, vectors=timer_vectors, loop=0, fixed=RINGS
    vectors timer_vectors, irq=timer_handler
    .balign 32
timer_handler:
    sub lr, lr, #4
    interrupt_begin
    timer_arm
    add r11, r11, #1
    interrupt_end
    movs pc, lr
    .ltorg
irq_timer:
    timer_arm
    ldr r9, =TIMER_PATIENCE
    cpsie i
1:  subs r9, r9, #1
    cmpne r11, r4
    bne 1b
    cpsid i
    ldr r10, =TIMER_PATIENCE
    sub r10, r10, r9
    b finished
    .ltorg

@ Interrupts that come at once: unmasked, then waited for.
    .macro provoked name, label, vectors, setup=0
    bench \name, \label, events=1, vectors=\vectors, setup=\setup
    .endm

    provoked irq-device, irq_device, device_vectors
    vectors device_vectors, irq=device_handler
    .balign 32
device_handler:
    sub lr, lr, #4
    interrupt_begin
    str r8, [r0]
    add r11, r11, #1
    interrupt_end
    movs pc, lr
    .ltorg
irq_device:
    ldr r0, =UART_UNMASK
    mov r1, #UART_UNMASK_VALUE
    mov r8, #0
    ldr r9, =PATIENCE
    cpsie i
9:  str r1, [r0]
1:  cmp r11, r10
    bhi 2f
    subs r9, r9, #1
    bne 1b
    cpsid i
    b finished
2:  again
    cpsid i
    b finished
    .ltorg

    provoked irq-software, irq_software, software_vectors, software_setup
    vectors software_vectors, irq=software_handler
    .balign 32
software_handler:
    sub lr, lr, #4
    interrupt_begin
    add r11, r11, #1
    interrupt_end
    movs pc, lr
    .ltorg
    .if HAS_SGI
software_setup:
    mov r0, #0
    bx lr
irq_software:
    ldr r0, =GICD + 0xf00
    ldr r1, =0x02000000             @ number 0, to this CPU
    ldr r9, =PATIENCE
    cpsie i
9:  str r1, [r0]
1:  cmp r11, r10
    bhi 2f
    subs r9, r9, #1
    bne 1b
    cpsid i
    b finished
2:  again
    cpsid i
    b finished
    .ltorg
    .else
software_setup:
    adr r0, 1f
    bx lr
1:  .asciz "this board's interrupt controller has no software-generated interrupts"
    .balign 4
irq_software:
    b finished
    .endif
