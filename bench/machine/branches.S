@ Branches, calls and returns. The code between the targets is undefined, so a branch that goes astray is found out.

    .include "common.inc"
    .text

    .macro slots size
    .balignl \size, UDF
    .endm

    bench branch-same-page, branch_same_page, 17
    .balign 4096
branch_same_page:
9:  b slot0
    .macro slot k, next
    slots 64
slot\k:
    b \next
    .endm
    slot 0, slot7
    slot 1, slot8
    slot 2, slot9
    slot 3, slot10
    slot 4, slot11
    slot 5, slot12
    slot 6, slot13
    slot 7, slot14
    slot 8, slot15
    slot 9, slots_end
    slot 10, slot1
    slot 11, slot2
    slot 12, slot3
    slot 13, slot4
    slot 14, slot5
    slot 15, slot6
    slots 64
slots_end:
    again
    b finished

@ Over eight pages.
    bench branch-cross-page, branch_cross_page, 9
    .balign 4096
branch_cross_page:
9:  b page0
page_end:
    again
    b finished
    .macro page k, next
    slots 4096
    .rept 16
    .word UDF
    .endr
page\k:
    b \next
    .endm
    page 0, page3
    page 1, page4
    page 2, page5
    page 3, page6
    page 4, page7
    page 5, page_end
    page 6, page1
    page 7, page2

    bench branch-conditional-taken, branch_taken, 16
    .balign 4096
branch_taken:
    cmp r4, #0                      @ `again` leaves the same flags: not equal
9:
    .rept 16
    bne 1f
    .word UDF
1:
    .endr
    again
    b finished

    bench branch-conditional-not-taken, branch_not_taken, 16
branch_not_taken:
    cmp r4, #0
9:
    .rept 16
    beq wrong
    .endr
    again
    b finished
wrong:
    udf #1

    .macro targets label
    ldr r0, =\label\()0
    ldr r1, =\label\()1
    ldr r2, =\label\()2
    ldr r3, =\label\()3
    ldr r5, =\label\()4
    ldr r6, =\label\()5
    ldr r7, =\label\()6
    ldr r8, =\label\()7
    .endm

    bench branch-indirect-same-page, indirect_same_page, 9
    .balign 4096
indirect_same_page:
    targets ind
    ldr r9, =ind_end
9:  bx r0
ind_end:
    again
    b finished
    .ltorg
    .macro ind k, next
    slots 64
ind\k:
    bx \next
    .endm
    ind 0, r3
    ind 1, r5
    ind 2, r6
    ind 3, r7
    ind 4, r8
    ind 5, r9
    ind 6, r1
    ind 7, r2

    bench branch-indirect-cross-page, indirect_cross_page, 9
    .balign 4096
indirect_cross_page:
    targets far
    ldr r9, =far_end
9:  bx r0
far_end:
    again
    b finished
    .ltorg
    .macro far k, next
    slots 4096
    .rept 24
    .word UDF
    .endr
far\k:
    bx \next
    .endm
    far 0, r3
    far 1, r5
    far 2, r6
    far 3, r7
    far 4, r8
    far 5, r9
    far 6, r1
    far 7, r2

@ A switch statement's jump: one of eight targets by a table.
    bench branch-table, branch_table, 8
    .balign 4096
branch_table:
    mov r0, #0
    mov r1, #1
    mov r2, #2
    mov r3, #3
    mov r5, #4
    mov r6, #5
    mov r7, #6
    mov r8, #7
    adr r9, jumps
9:  ldr pc, [r9, r0, lsl #2]
    .word UDF
    .macro jump k, next
    slots 64
jump\k:
    .ifc \next, end
    again
    b finished
    .else
    ldr pc, [r9, \next, lsl #2]
    .endif
    .endm
    jump 0, r3
    jump 1, r5
    jump 2, r6
    jump 3, r7
    jump 4, r8
    jump 5, end
    jump 6, r1
    jump 7, r2
jumps:
    .word jump0, jump1, jump2, jump3, jump4, jump5, jump6, jump7

@ Each function counts its calls.
    .macro calls name, label, call, init=""
    bench \name, \label, 8, events=8
    .balign 4096
\label:
    \init
9:
    .rept 8
    \call
    .endr
    again
    b finished
    .ltorg
    .endm

    calls call-bl-bx, call_bl_bx, "bl 2f"
    .word UDF
2:  add r11, r11, #1
    bx lr

    calls call-bl-bx-cross-page, call_cross_page, "bl 2f"
    slots 4096
    .rept 40
    .word UDF
    .endr
2:  add r11, r11, #1
    bx lr

    calls call-push-pop, call_push_pop, "bl 2f"
    .word UDF
2:  push {r4, lr}
    add r11, r11, #1
    pop {r4, pc}

    calls call-blx-register, call_blx, "blx r5", "ldr r5, =2f"
    .word UDF
2:  add r11, r11, #1
    bx lr
