@ What the compiler calls to copy words: __aeabi_memcpy4(to, from, bytes), and the same of doublewords (Run-time ABI for
@ the Arm Architecture, 4.3.4). Its own takes five instructions for each word. It is weak, so that this takes its place.
@
@ Neither address is looked at: both are multiples of four, and the memory does not overlap, or the caller is wrong.
@ Each byte that is stored is one of those `bytes`, and so is each that is loaded.

    .section .text.copy, "ax", %progbits
    .arm
    PART other, "copies and arithmetic of the compiler's"

    .global __aeabi_memcpy4
    .type __aeabi_memcpy4, %function
    .global __aeabi_memcpy8
    .type __aeabi_memcpy8, %function
__aeabi_memcpy4:
__aeabi_memcpy8:
    cmp r2, #32
    blo 2f
    push {{r4-r10, lr}}
1:  ldm r1!, {{r3-r10}}
    sub r2, r2, #32
    cmp r2, #32
    stm r0!, {{r3-r10}}
    bhs 1b
    pop {{r4-r10, lr}}
2:  subs r2, r2, #4
    ldrhs r3, [r1], #4
    strhs r3, [r0], #4
    bhi 2b
    @ Now it is how many are left, less four; or zero, if none are.
    bxeq lr
    add r2, r2, #4
3:  subs r2, r2, #1
    ldrbhs r3, [r1], #1
    strbhs r3, [r0], #1
    bhi 3b
    bx lr
    .size __aeabi_memcpy4, . - __aeabi_memcpy4
    .size __aeabi_memcpy8, . - __aeabi_memcpy8
