@ For samples of the kernel's stack: functions that call each other, each of which executes a known share of the
@ instructions. In a round, `leaf` is called three times by `left`, by a pointer, and once by `right`; `top` calls both.

    .include "runtime.inc"
    .include "clock.inc"
    .include "keys.inc"

    .global main
main:
    push {r4-r12, lr}
    bl keys_on
1:  bl top
    say "done\n"
    bl key
    b 1b

    .ltorg

    .type top, %function
top:
    push {r4-r6, lr}
    ldr r4, =20000
1:  bl left
    bl right
    subs r4, r4, #1
    bne 1b
    pop {r4-r6, pc}

    .type left, %function
left:
    push {r4, r5, lr}
    sub sp, sp, #20
    mov r4, #3
    ldr r5, =leaf
1:  blx r5
    subs r4, r4, #1
    bne 1b
    add sp, sp, #20
    pop {r4, r5, pc}

    .type right, %function
right:
    push {r4, lr}
    cmp r4, #1000
    bhi 1f
    bls 1f                          @ a sample may be due in front of it: the flags are what they were
    say "wrong\n"
1:  bl leaf
    pop {r4, pc}

    .ltorg

    .type leaf, %function
leaf:
    mov r0, #100
1:  subs r0, r0, #1
    bne 1b
    bx lr
