@ A guest that reads its own text while it executes it. Its code lies in five pages that are mapped twice: where they
@ are executed, at the addresses of a Linux kernel, and flat, where nobody executes them. Flat, each word is what was
@ assembled. Where they are executed, it is the same on a real machine and where the kernel runs by blocks. In place,
@ sensitive instructions read as something else (docs/in-place.md), and nothing but these.
@
@ What a look finds of sensitive words is on a line of its own, which begins with `  at`.

    .include "runtime.inc"
    .include "tables.inc"
    .fpu vfpv3

    .equ TEXT, 0xc010f000           @ entries of a jump table in that page look like ANDS PC
    .equ BX_LR, 0xe12fff1e
    .equ MRS_R0, 0xe10f0000
    .equ MOV_R0, 0xe3a00000

    @ An instruction that means something else in User mode. `look` knows where it is.
    .macro sensitive instruction:vararg
sensitive_\@:
    \instruction
    .pushsection .data, 1
    .word sensitive_\@
    .popsection
    .endm
    .pushsection .data, 1
    .balign 4
instead:
    .word 0                         @ sensitive words that read as another instruction
list:
    .popsection
    .pushsection .data, 2
list_end:
    .popsection

    @ So far apart that each has a stub of its own.
    .macro apart
    .rept 9
    add r3, r3, #1
    .endr
    .endm

    @ Calls a function where it is executed.
    .macro in_text label
    there r12, \label
    blx r12
    .endm

    @ Where a label is executed.
    .macro there reg, label
    ldr lr, =text
    ldr \reg, =TEXT
    sub \reg, \reg, lr
    ldr lr, =\label
    add \reg, \reg, lr
    .endm

    .macro look_at what
    say "\n\what:"
    bl look
    .endm

    .global main
main:
    push {r4-r12, lr}
    mrc p15, 0, r0, c1, c0, 2       @ VFP is allowed
    orr r0, r0, #0xf00000
    mcr p15, 0, r0, c1, c0, 2
    isb
    bl flat_tables
    ldr r0, =TABLES + (TEXT >> 20) * 4
    ldr r1, =LEVEL2 + 1
    str r1, [r0]
    ldr r0, =LEVEL2 + (TEXT >> 12 & 0xff) * 4
    ldr r1, =text + 0x43e           @ a small page, write-back, for all
    mov r2, #5
1:  str r1, [r0], #4
    add r1, r1, #0x1000
    subs r2, r2, #1
    bne 1b
    bl mmu_on

    look_at "before it is executed"
    mov r0, #7
    in_text plain
    show plain, r0
    look_at "executed, but for what is sensitive"
    bl execute
    bl data
    look_at "executed"
    say "\ncalls"
    in_text calls
    bl windows
    bl execute
    look_at "and once more"
    bl rewrite
    look_at "rewritten"
    bl doubt
    bl wear
    look_at "written again and again"
    bl execute
    bl data
    pop {r4-r12, pc}

@ Reads the pages by words, where they are executed and flat.
look:
    push {r4-r11, lr}
    ldr r4, =text
    ldr r5, =text_end
    ldr r6, =TEXT
    mov r7, #0                      @ the sum of all that is not sensitive
    mov r8, #0                      @ sensitive words that read as what they are,
    mov r9, #0                      @ as a trap,
    mov r10, #0                     @ as a branch
    mov r11, #0                     @ words that are wrong
1:  ldr r0, [r4]
    ldr r1, [r6]
    ldr r2, =list
    ldr r3, =list_end
2:  ldr r12, [r2], #4
    cmp r12, r4
    beq 3f
    cmp r2, r3
    blo 2b
    add r7, r1, r7, ror #27
    cmp r0, r1
    beq 5f
    add r11, r11, #1
    show differs, r6
    show reads, r1
    b 5f
3:  cmp r0, r1
    addeq r8, r8, #1
    beq 5f
    lsr r2, r1, #24
    cmp r2, #0xef                   @ SVC
    addeq r9, r9, #1
    beq 5f
    cmp r2, #0xea                   @ B
    cmpne r2, #0xeb
    addeq r10, r10, #1
    beq 5f
    bic r2, r0, #0x20               @ a read of TPIDRURW for one of TPIDRURO
    cmp r1, r2
    ldreq r2, =instead
    ldreq r3, [r2]
    addeq r3, r3, #1
    streq r3, [r2]
    addne r11, r11, #1
5:  add r4, r4, #4
    add r6, r6, #4
    cmp r4, r5
    blo 1b
    show sum, r7
    show wrong, r11
    say "\n  at"
    show kept, r8
    show traps, r9
    show branches, r10
    ldr r2, =instead
    mov r3, #0
    ldr r4, [r2]
    str r3, [r2]
    show others, r4
    say "\n"
    pop {r4-r11, pc}

@ Executes what is sensitive; each answer is what it has to be.
execute:
    push {r4-r11, lr}
    say "\nresults"
    msr cpsr_f, #0
    in_text f_mrs
    show mrs, r0
    ldr r0, =0x50000000
    in_text f_msr
    show msr, r0
    in_text f_cps
    show cps, r0
    ldr r0, =0x600001d3
    in_text f_spsr
    show spsr, r0
    ldr r0, =0x12345678
    in_text f_tls
    show tls, r0
    in_text f_dacr
    show dacr, r0
    ldr r0, =word
    in_text f_ldrt
    show ldrt, r0
    ldr r0, =pair
    in_text f_stm
    ldr r0, =pair
    ldr r0, [r0]
    show stm, r0
    mrs r0, cpsr
    msr spsr_fsxc, r0
    in_text f_movs
    show movs, r0
    in_text f_near
    show near, r0
    in_text f_vfp
    show vfp, r0
    ldr r0, =0x200001d3
    msr spsr_fsxc, r0
    in_text f_behind
    show behind, r0
    in_text f_svc
    show svc, r0
    pop {r4-r11, pc}

@ Executes what has data in the middle of text.
data:
    push {r4-r11, lr}
    say "\ndata"
    in_text d_literals
    show literals, r0
    in_text d_pair
    show pair, r0
    in_text d_parts
    show parts, r0
    mov r4, #0
    mov r5, #0
1:  mov r0, r4
    in_text d_jumps
    add r5, r0, r5, ror #25
    add r4, r4, #1
    cmp r4, #4
    blo 1b
    show jumps, r5
    in_text d_next
    show next, r0
    pop {r4-r11, pc}

@ Opens a domain, calls what uses it, and closes it again, as Linux does: what is in between may use it, and nobody
@ else.
windows:
    push {r4-r7, lr}
    say "\nwindows"
    ldr r0, =word
    lsr r1, r0, #20
    lsl r1, r1, #20
    ldr r2, =FLAT + 0x20            @ domain 1
    orr r1, r1, r2
    ldr r2, =TABLES + (WINDOW >> 20) * 4
    str r1, [r2]
    bic r1, r1, #0xc00              @ the same for nobody but its domain's manager
    str r1, [r2, #4]
    bl flush
    ldr r0, =word
    ubfx r4, r0, #0, #20
    add r4, r4, #WINDOW
    mov r5, #0
1:  ldr r0, =opened
    ldr r6, [r0, r5]
    mov r0, r4
    mov r1, r6
    in_text f_window
    show loaded, r0
    show open, r2
    show closed, r3
    mov r0, r4
    mov r1, r6
    in_text f_other_window
    show stored, r0
    show open, r2
    show closed, r3
    in_text f_closed
    add r5, r5, #4
    cmp r5, #opened_end - opened
    blo 1b
    eors r5, r5, r5
    tst r4, #0x100000
    addeq r4, r4, #0x100000
    beq 1b
    pop {r4-r7, pc}

@ A word that is sensitive becomes one that is not, and one that is again: it reads as it was written but for that.
rewrite:
    push {r4-r11, lr}
    say "\nwrites"
    there r4, patched
    ldr r5, =MOV_R0 + 42
    bl rewritten
    show other, r1
    show result, r0
    ldr r5, =MRS_R0
    bl rewritten
    and r0, r0, #0xff
    show result, r0
    @ Half of an instruction, and a literal that is like none.
    there r4, patched_half
    mov r5, #99
    strb r5, [r4]
    bl published
    in_text patched_half
    show half, r0
    ldrb r1, [r4]
    show byte, r1
    there r4, d_literal
    ldr r5, [r4]
    ldr r1, =0xf10c0080             @ CPSID i
    str r1, [r4]
    bl published
    in_text d_literals
    show literal, r0
    ldr r1, [r4]
    show reads, r1
    str r5, [r4]
    bl published
    pop {r4-r11, pc}

@ Writes R5 to R4, a function's first word, and calls it. R0 is what it returns, R1 whether the word reads as it is.
rewritten:
    push {lr}
    str r5, [r4]
    bl published
    blx r4
    ldr r1, [r4]
    sub r1, r1, r5
    pop {pc}

published:
    mcr p15, 0, r4, c7, c11, 1
    publish_all
    bx lr

@ A page of which nobody can tell what is code.
doubt:
    push {lr}
    in_text f_doubt
    show doubt, r0
    pop {pc}

@ So often that no copy of the page is worth while any more.
wear:
    push {r4-r6, lr}
    there r4, patched_half
    mov r5, #0
    mov r6, #0
1:  ldr r0, =MOV_R0
    and r1, r5, #0xff
    orr r0, r0, r1
    ldr r1, [r4, #4]
    stm r4, {r0, r1}                @ more than a word: the page changes as a whole
    mcr p15, 0, r4, c7, c11, 1
    dsb
    mcr p15, 0, r4, c7, c5, 1
    mcr p15, 0, r4, c7, c5, 6
    dsb
    isb
    blx r4
    add r6, r0, r6, ror #27
    add r5, r5, #1
    ldr r0, =64
    cmp r5, r0
    blo 1b
    show worn, r6
    pop {r4-r6, pc}

    .ltorg

@ What is looked at.
    .balign 4096
text:
plain:
    add r0, r0, #1
    lsl r0, r0, #1
    bx lr

    apart
f_mrs:
    apart
    sensitive mrs r0, cpsr
    apart
    bx lr
f_msr:
    apart
    sensitive msr cpsr_f, r0
    apart
    movpl r0, #1
    movmi r0, #2
    addvs r0, r0, #4
    bx lr
f_cps:
    mov r0, #1
    apart
    sensitive cpsid i
    apart
    bx lr
f_spsr:
    apart
    sensitive msr spsr_fsxc, r0
    apart
    sensitive mrs r0, spsr
    apart
    bx lr
f_tls:
    apart
    sensitive mcr p15, 0, r0, c13, c0, 3
    mov r0, #0
    apart
    sensitive mrc p15, 0, r0, c13, c0, 3
    apart
    bx lr
f_dacr:
    apart
    sensitive mrc p15, 0, r0, c3, c0, 0
    apart
    bx lr
f_ldrt:
    mov r1, r0
    apart
    sensitive ldrt r0, [r1], #4
    apart
    bx lr
f_stm:
    apart
    sensitive stm r0, {sp, lr}^
    apart
    bx lr
f_movs:
    apart
    mov r0, #3
    apart
    sensitive movs pc, lr
    apart
    @ Two that are so near each other that the first one's stub has both: nothing branches to one of the second.
f_near:
    apart
    sensitive mrc p15, 0, r0, c1, c0, 0
    and r0, r0, #1
    sensitive mcr p15, 0, r0, c13, c0, 3
    apart
    bx lr
f_vfp:
    apart
    sensitive vmrs r0, fpexc
    apart
    bx lr
    @ Never executed.
    apart
    sensitive wfi
    apart
    sensitive mrrc p15, 0, r0, r1, c14
    apart
    bx lr
    @ What traps by itself stays.
f_svc:
    push {lr}
    svc #0x20
    pop {pc}
    bkpt #1
    udf #2
    smc #0
    bx lr

patched:
    sensitive mrs r0, cpsr
    apart
    bx lr
patched_half:
    mov r0, #1
    bx lr

    apart
    @ Literals that look like instructions, right behind code, and in the middle of it.
d_literals:
    ldr r0, d_literal
    ldr r1, 1f
    add r0, r0, r1, ror #3
    ldr r1, [pc, #-8]               @ itself
    add r0, r0, r1, ror #5
    b 2f
d_literal:
    .word 0xee1d3f70                @ MRC p15, 0, R3, c13, c0, 3
1:  .word 0xf1080080                @ CPSIE i
2:  bx lr

d_pair:
    adr r1, 1f
    ldrd r2, r3, [r1]
    sub r0, r2, r3
    bx lr
    nop
    .balign 8
1:  .word 0xe1b0f00e                @ MOVS PC, LR
    .word 0xe10f0000                @ MRS R0, CPSR
    nop

d_parts:
    ldrb r0, 1f + 1
    ldrh r1, 1f + 2
    ldrsb r2, 2f + 3
    add r0, r1, r0, lsl #8
    add r0, r0, r2, lsl #16
    bx lr
1:  .word 0xe121f003                @ MSR CPSR_c, R3
2:  .word 0xe8dd8001                @ LDM SP, {R0, PC}^
    nop

    @ Entries of the table are 0xC010Fxxx, and so ANDS<GT> PC, if bits 7 and 4 are not both set.
    .balign 128
d_jumps:
    cmp r0, #4
    ldrlo pc, [pc, r0, lsl #2]
    b 4f
    .word 1f - text + TEXT, 2f - text + TEXT, 3f - text + TEXT, 4f - text + TEXT
1:  mov r0, #11
    bx lr
2:  mov r0, #22
    bx lr
3:  mov r0, #33
    bx lr
4:  mov r0, #44
    bx lr

    @ Strings of which each word is STRT, LDRT or the like, between functions.
    .ascii "wordhardcardfordwardcordherdbird"
    apart
    bx lr
    .ascii "word"
    apart
    bx lr

    @ A table whose address nobody makes here.
    .word 1, 20, 300, 4000, 50000, 0x0a0b0c0d, 7, 8, 9, 10
    .word MRS_R0, 0xf10c0080, 0xee1d3f90
    .word 11, 0x00120000, 13, 0x01400000, 15, 16, 17, 18, 19, 20
    nop

    @ The end of the page: what is read lies behind it.
    .org text + 4096 - 12
d_next:
    ldr r0, 1f
    add r0, r0, #1
    bx lr
1:  .word 0xee033f10                @ MCR p15, 0, R3, c3, c0, 0
f_behind:
    apart
    sensitive mrs r0, spsr
    apart
    bx lr

    @ Half of what is around it looks like instructions: this page runs by blocks.
    .balign 4096
f_doubt:
    mov r0, #5
    mrs r1, cpsr
    bx lr
    .rept 8
    .word 0x00000003
    nop
    .endr
    .word 0xe1b0f00e                @ MOVS PC, LR
    .rept 8
    .word 0x00000003
    nop
    .endr

    @ Calls of the kernel's own, of all numbers that a trap of Spica's may have: this one as well.
    .balign 4096
calls:
    push {lr}
    .set number, 0
    .rept 32
    svc #number
    .set number, number + 1
    .endr
    svcne #4
    svceq #5
    pop {pc}

    @ Loads from R0 with the bits R1 of DACR, and stores there.
    .balign 4096
f_window:
    push {r7, lr}
    sensitive mrc p15, 0, r7, c3, c0, 0
    orr r6, r7, r1
    apart
    sensitive mcr p15, 0, r6, c3, c0, 0
    isb
    bl 1f
    sensitive mcr p15, 0, r7, c3, c0, 0
    isb
    apart
    sensitive mrc p15, 0, r3, c3, c0, 0
    pop {r7, pc}
1:  ldr r0, [r0]
    apart
    sensitive mrc p15, 0, r2, c3, c0, 0
    apart
    bx lr

f_other_window:
    push {r8, lr}
    apart
    sensitive mrc p15, 0, r8, c3, c0, 0
    orr r2, r8, r1
    apart
    sensitive mcr p15, 0, r2, c3, c0, 0
    isb
    mov r12, r0
    bl 1f
    mov r3, r8
    sensitive mcr p15, 0, r3, c3, c0, 0
    isb
    apart
    sensitive mrc p15, 0, r3, c3, c0, 0
    pop {r8, pc}
1:  str r1, [r12]
    ldr r0, [r12]
    apart
    sensitive mrc p15, 0, r2, c3, c0, 0
    apart
    bx lr

f_closed:
    ldr r0, [r4]
    str r0, [r4]
    bx lr
    .balign 4096
text_end:

    .data
    .balign 8
    @ Domain 1 a client; with others; its manager, who may do anything; and each again.
opened:
    .word 0x4, 0x44, 0x4, 0xc, 0x4, 0x1000004, 0x44, 0x40000004
opened_end:
word:
    .word 0x600dc0de
pair:
    .word 0, 0
