@ A kernel that attacks: parameter 0 says how. Whatever happens to it, Spica must go on, or stop it and say why.

    .include "runtime.inc"
    .include "attack.inc"

@ 0: words from the test's generator, executed as kernel code, a chunk of 8 at a time.
garbage:
    bl fill_memory
    next_is 1f
1:  again 2f, 1500
    b survived
2:  get r1, parameters + 8
    tst r1, #1
    blne identity
    get r0, attempts
    get r1, parameters + 4
    cmp r1, #0
    bpl 3f
    show ., r0                      @ to find the words that did it
3:  ldr r4, =image_end
    add r4, r4, r0, lsl #5
    @ A copy, for the garbage may store over itself.
    ldm r4, {r5-r12}
    ldr r4, =SCRATCH + 0x1000
    stm r4, {r5-r12}
    ldr r5, =0xef000001             @ SVC
    str r5, [r4, #32]
    mcr p15, 0, r4, c7, c5, 1
    mcr p15, 0, r0, c7, c5, 6
    dsb
    isb
    ldr r0, =SCRATCH + 0x2000
    mov r1, r0
    ldr r2, =SCRATCH + 0x2800
    mov r3, #4
    get r5, parameters + 8
    tst r5, #2
    ldreq r5, =SCRATCH + 0x4000
    ldrne r5, =CODE + 0x100
    addeq r6, r5, #0x800
    ldrne r6, =VCPU_PAGE
    ldr r7, =UART + 0x18
    mvn r8, #0
    mov r9, #64
    ldr r10, =SCRATCH + 0x3000
    ldr r11, =0x80000000
    mov r12, sp
    mov lr, r4
    bx r4

@ 1: every word of the vCPU page, at the code cache's address, with values of all kinds, by the page's first alias and
@ by others; then what depends on it: changes of mode, of masks, of status, exceptions, indirect branches.
vcpu_page:
    next_is 3f
    bl identity
2:  get r0, attempts
    ldr r2, =VCPU_PAGE
    and r3, r0, #0xff               @ a word of the first 256
    add r2, r2, r3, lsl #2
    and r3, r0, #0x700              @ an alias
    add r2, r2, r3, lsl #5
    bl random
    lsr r3, r0, #28
    ldr r4, =values
    ldr r4, [r4, r3, lsl #2]
    tst r0, #0x08000000
    eorne r4, r4, r0
    str r4, [r2]
    svc #0
    b 3f
3:  next_is 4f
    mov r0, #0
    bl use_modes
4:  next_is 3b
    again 5f, 3000
    b survived
5:  next_is 3b
    bl mmu_on
    b 2b

@ Uses everything that the vCPU page holds.
use_modes:
    push {lr}
    cpsie i
    cpsid i
    mrs r0, cpsr
    msr cpsr_c, r0
    bic r0, r0, #0x80
    msr cpsr_c, r0
    cps #MODE_FIQ
    cps #MODE_IRQ
    cps #MODE_SYS
    cps #MODE_SVC
    mrs r0, spsr
    msr spsr_cxsf, r0
    mrc p15, 0, r0, c13, c0, 4
    mrc p15, 0, r0, c13, c0, 3
    adr lr, 1f
    bx lr
1:  ldr sp, =STACK_SVC
    stmdb sp, {r13, r14}^
    nop
    srsdb sp!, #MODE_ABT
    ldr pc, =1f
1:  b survive_here
survive_here:
    get r0, continue
    bx r0

@ 2: what waits behind CPSIE, at every distance: code that looks for a waiting interrupt adds a word of the vCPU page to
@ its PC. Every word of the page is set to every multiple of 4 in reach.
wild_distance:
    bl identity
    next_is 3f
2:  get r0, attempts
    ldr r2, =VCPU_PAGE
    mov r1, #0
    ldr r3, =2000
    sub r3, r0, r3
    lsl r3, r3, #2
1:  str r3, [r2, r1]
    add r1, r1, #4
    cmp r1, #64                     @ the words before the banks
    blo 1b
    cpsie i
    nop
    cpsid i
    mrs r0, cpsr
    msr cpsr_c, r0
    svc #0
3:  again 4f, 4000
    b survived
4:  bl mmu_on
    next_is 3b
    b 2b

@ 3: branches into the code cache and the rest of the hypervisor region, and loads and stores there. With nothing mapped
@ or nothing behind, all of them fault, whatever is checked on the way; that they fault for the right reason is for
@ region.S to see.
region:
    get r0, parameters + 4
    cmp r0, #0
    blne identity
    next_is 3f
2:  get r0, attempts
    ldr r2, =CODE
    add r2, r2, r0, lsl #2
    tst r0, #0x400                  @ odd pages only
    addne r2, r2, #0x1000
    mov lr, #0
    blx r2
3:  again 4f, 3000
    mov r0, #0
    put attempts, r0, r1
    b 5f
4:  next_is 3b
    get r0, parameters + 4
    cmp r0, #0
    blne mmu_on
    b 2b
5:  next_is 7f
6:  get r0, attempts
    get r1, parameters + 4
    cmp r1, #0
    blne mmu_on
    ldr r2, =REGION
    get r0, attempts
    mov r1, #0x7300
    mla r2, r0, r1, r2
    mvn r3, #0
    mcr p15, 0, r2, c8, c7, 1       @ TLBIMVA
    mcr p15, 0, r2, c7, c10, 1      @ DCCMVAC
    mov r5, r2
    tst r0, #1
    ldrtne r4, [r5]
    tst r0, #2
    strtne r3, [r5]
    ldr r4, [r2]
    ldrb r4, [r2, #1]
    strh r3, [r2, #2]
    str r3, [r2]
    ldrd r4, r5, [r2]
    stm r2, {r3, r4}
    ldrex r4, [r2]
    svc #0
7:  next_is 7b
    again 6b, 2200
    b survived

    @ The MMU on, all memory where it is, if parameter 1 says so.
    .macro may_map
    get r0, parameters + 4
    cmp r0, #0
    blne identity
    .endm

@ 4: supervisor calls of every number, from kernel code: one exception each, no more. Parameter 1: the MMU is on.
calls:
    may_map
    ldr r4, =SCRATCH
    mov r5, #0
1:  orr r0, r5, #0xef000000
    ldr r1, =0xe12fff1e             @ BX LR
    stm r4!, {r0, r1}
    add r5, r5, #1
    cmp r5, #512
    blo 1b
    publish_all
    next_is 3f
2:  get r0, attempts
    ldr r4, =SCRATCH
    add r4, r4, r0, lsl #3
    mov r0, #1
    adr lr, 4f
    bx r4
3:  again 2b, 512
    get r0, faults
    show exceptions, r0
    b survived
4:  say "\na supervisor call came back"
    b power_off

@ 5: tables that map RAM where Spica lives; parameter 1 is the address.
map_region:
    bl identity
    get r0, parameters + 4
    ldr r1, =TABLES
    lsr r0, r0, #20
    ldr r2, =0x40000c02
    str r2, [r1, r0, lsl #2]
    mcr p15, 0, r0, c8, c7, 0
    dsb
    isb
    get r0, parameters + 4
    ldr r1, [r0, #0x44]
    show found, r1
    str r1, [r0, #0x44]
    b survived

@ 6: tables of random words, in RAM, devices and nowhere; random accesses by them.
tables:
    next_is 3f
2:  get r0, attempts
    tst r0, #31
    bne 4f
    @ New tables: the first megabyte of code stays where it is, or there would be nothing to run.
    ldr r4, =TABLES
    mov r5, #0
1:  bl random
    tst r0, #0x30000000             @ some of them point to tables in RAM
    andeq r1, r0, #0x3fc00
    biceq r0, r0, #0x3fc
    ldreq r0, =TABLES + 1
    addeq r0, r0, r1
    str r0, [r4, r5, lsl #2]
    add r5, r5, #1
    cmp r5, #4096
    blo 1b
    @ Nothing at the addresses of code cache and return mirror: that ends the machine (attack 5).
    ldr r1, =TABLES + 0xf18 * 4
    mov r0, #0
    mov r5, #0x30
9:  str r0, [r1], #4
    subs r5, r5, #1
    bne 9b
    ldr r0, =0x40000c02
    add r1, r4, #0x1000
    str r0, [r1]
    ldr r0, =0x40100c02
    str r0, [r1, #4]
    ldr r0, =0x40200c02
    str r0, [r1, #8]
4:  bl random
    mcr p15, 0, r0, c3, c0, 0
    ldr r0, =TABLES
    bl mmu_on
    bl random
    tst r0, #0x80
    and r1, r0, #0x3fc
    ldr r2, =TABLES
    strne r0, [r2, r1]              @ change an entry now and then, without maintenance
    bl random
    mov r6, r0
    bl random
    tst r0, #1
    ldrne r1, [r6]
    tst r0, #2
    strne r0, [r6]
    tst r0, #4
    ldmne r6, {r1-r5}
    tst r0, #8
    ldrtne r1, [r6]
    tst r0, #16
    mcrne p15, 0, r6, c7, c11, 1
    tst r0, #32
    mcrne p15, 0, r6, c7, c8, 1
    tst r0, #64
    mcrne p15, 0, r6, c8, c7, 1
    tst r0, #128
    bicne r6, r6, #3
    bxne r6
    svc #0
3:  next_is 3b
    again 2b, 4000
    b survived

@ 7: tables nowhere, in devices, over themselves, at the ends of memory. They serve the lower addresses, by TTBCR.N from
@ 2 to 7; the upper ones have good tables, or this would end at once.
table_places:
    bl identity
    bl quiet
    next_is 3f
2:  get r0, attempts
    lsr r1, r0, #3
    ldr r2, =places
    and r1, r1, #15
    ldr r1, [r2, r1, lsl #2]
    mcr p15, 0, r1, c2, c0, 0
    ldr r1, =TABLES
    mcr p15, 0, r1, c2, c0, 1
    and r1, r0, #7
    cmp r1, #2
    movlo r1, #2
    mcr p15, 0, r1, c2, c0, 2
    mvn r1, #0
    mcr p15, 0, r1, c3, c0, 0
    dsb
    isb
    ldr r1, =0x00c50079
    set_sctlr r1
    bl random
    lsr r1, r0, #2                  @ below 0x40000000
    ldr r2, [r1]
    str r2, [r1]
    ldr r1, =TABLES
    ldr r2, [r1]
    str r2, [r1]
    bl random
    lsr r1, r0, #2
    bx r1
3:  next_is 3b
    again 2b, 128
    b survived

    .ltorg

@ 8: a storm of maintenance and of changes of tables and address spaces.
storm:
    bl identity
    @ Sixty-four tables: copies of the first.
    ldr r4, =TABLES
    ldr r5, =0x40800000
    ldr r6, =0x40800000 + 64 * 0x4000
1:  and r0, r5, #0x3f00
    and r1, r5, #0xfc
    add r0, r0, r1
    ldr r0, [r4, r0]
    str r0, [r5], #4
    cmp r5, r6
    blo 1b
2:  get r0, attempts
    and r1, r0, #63
    ldr r2, =0x40800000
    add r2, r2, r1, lsl #14
    set_ttbr0 r2
    and r1, r0, #0xff
    set_contextidr r1
    ldr r3, =SCRATCH
    add r3, r3, r0, lsl #8
    ldr r1, [r3]
    str r1, [r3, #0x40]
    tst r0, #1
    mcrne p15, 0, r3, c8, c7, 1
    tst r0, #2
    mcrne p15, 0, r0, c8, c7, 2
    tst r0, #12
    mcreq p15, 0, r0, c8, c7, 0
    tst r0, #16
    mcrne p15, 0, r3, c8, c7, 3
    tst r0, #32
    mcrne p15, 0, r0, c7, c5, 0
    ldrne r1, =0x55555555
    mvneq r1, #0
    mcr p15, 0, r1, c3, c0, 0
    tst r0, #64
    ldreq r1, =0x00c50079
    ldrne r1, =0x20c50079           @ with the access flag
    set_sctlr r1
    again 2b, 6000
    b survived

@ 9: a storm of aborts.
aborts:
    next_is 3f
2:  ldr r0, =ABSENT
    ldr r0, [r0]
3:  next_is 4f
    ldr r0, =ABSENT
    bx r0
4:  next_is 3b
    again 2b, 12000
    b survived

@ 10: calls of the firmware, all numbers but off, reset and suspend, all sorts of arguments.
firmware:
2:  get r0, attempts
    and r4, r0, #0x3f
    cmp r4, #1
    cmpne r4, #8
    cmpne r4, #9
    beq 3f
    ldr r1, =firmware_bases
    lsr r2, r0, #6
    and r2, r2, #7
    ldr r0, [r1, r2, lsl #2]
    orr r4, r4, r0
    bl random
    mov r1, r0
    bl random
    mov r2, r0
    bl random
    mov r3, r0
    mov r0, r4
    smc #0
    mov r0, r4
    smc #15
3:  again 2b, 1024
    b survived

@ 11: devices, at every offset, aligned or not, by accesses of every kind.
devices:
    next_is 4f
2:  get r0, attempts
    ldr r1, =device_bases
    lsr r2, r0, #9
    ldr r4, [r1, r2, lsl #2]
    ubfx r2, r0, #0, #9
    lsl r2, r2, #3
    lsr r3, r0, #2
    and r3, r3, #3
    orr r2, r2, r3
    add r4, r4, r2
    ldr r1, =UART
    sub r1, r4, r1
    cmp r1, #8                      @ not the console's data
    blo 4f
    ldr r5, [r4]
    bl random
    mov r1, r0
    mvn r2, #0
    mov r3, #0
    ldrb r5, [r4]
    ldrh r5, [r4]
    str r1, [r4]
    strb r2, [r4]
    strh r3, [r4]
    str r3, [r4]
    str r2, [r4]
    str r5, [r4]
    bic r4, r4, #3
    ldrd r8, r9, [r4]
    strd r8, r9, [r4]
    ldm r4, {r8-r12}
    stm r4, {r0-r3}
    ldrex r8, [r4]
    strex r9, r8, [r4]
    clrex
    ldrt r8, [r4]
    ldrsb r8, [r4, #1]
    ldrsh r8, [r4], #2
    .word 0xed940a00                @ VLDR
    .word 0xe10480b5                @ what has no name
4:  next_is 4b
    again 2b, 5120
    ldr r0, =UART
    mov r1, #0
    str r1, [r0, #0x30]
    str r1, [r0, #0x38]
    mov r1, #0x70
    str r1, [r0, #0x2c]
    ldr r1, =0x301
    str r1, [r0, #0x30]
    b survived

@ 12: every register of CP15, read and written; every sixteenth encoding for CP14 and for all other coprocessors. A page
@ of code at a time, one after the other: what is undefined is skipped.
coprocessors:
    vectors_at skipping_vectors
    next_is survived
1:  ldr r4, =SCRATCH
    add r11, r4, #0xf00
    get r12, attempts
2:  ubfx r1, r12, #0, #3            @ opc2
    lsl r2, r1, #5
    ubfx r1, r12, #3, #4            @ CRm
    orr r2, r2, r1
    ubfx r1, r12, #7, #4            @ CRn
    orr r2, r2, r1, lsl #16
    ubfx r1, r12, #11, #3           @ opc1
    orr r2, r2, r1, lsl #21
    ldr r3, =0xee000f10             @ MCR p15, …, r0
    orr r5, r2, r3
    orr r6, r5, #0x00100000         @ MRC
    orr r6, r6, #0x1000             @ to R1
    ldr r3, =forbidden
3:  ldr r1, [r3], #4
    cmp r1, r5
    ldreq r5, =0xe1a00000           @ NOP
    cmpne r1, #0
    bne 3b
    stm r4!, {r5, r6}
    tst r12, #15
    bne 4f
    ldr r3, =0xee101010             @ MRC of coprocessors 0 to 14
    orr r5, r2, r3
    ubfx r1, r12, #4, #4
    cmp r1, #15
    orrne r5, r5, r1, lsl #8
    bic r6, r5, #0x00100000
    ldr r3, =0xee000e10             @ MCR p14
    orr r7, r2, r3
    @ CDP, and a load or a transfer of two registers
    bic r8, r6, #0x10
    bic r9, r6, #0x02000000
    stm r4!, {r5-r9}
4:  add r12, r12, #1
    cmp r4, r11
    blo 2b
    ldr r5, =0xe12fff1e             @ BX LR
    str r5, [r4]
    put attempts, r12, r1
    mcr p15, 0, r0, c7, c5, 0
    mcr p15, 0, r0, c7, c5, 6
    dsb
    isb
    mov r0, #0
    ldr r4, =SCRATCH
    blx r4
    get r0, attempts
    cmp r0, #16384
    blo 1b
    b survived

@ 13: exception returns and writes to the CPSR with every mode and every bit that there is.
status:
    bl fill_memory
    next_is 3f
2:  get r0, attempts
    and r4, r0, #31
    lsr r1, r0, #5
    and r1, r1, #0x7f
    orr r4, r4, r1, lsl #5          @ T, F, I, A, E and IT
    tst r0, #0x800
    orrne r4, r4, #0x01000000       @ J
    and r1, r0, #31
    cmp r1, #MODE_USR               @ a kernel in Thumb state or with big-endian data is stopped: attacks 22 to 26
    bicne r4, r4, #0x220
    orr r4, r4, #0xf0000000
    msr spsr_cxsf, r4
    adr lr, status_landing
    tst r0, #0x400
    movseq pc, lr
    push {lr}
    push {r4}
    bne 1f
    nop
1:  tst r0, #0x200
    msreq cpsr_c, r4
    push {r4}
    push {lr}
    ldr sp, =STACK_SVC - 8
    adr r1, status_landing
    stm sp, {r1, r4}
    rfeia sp
3:  next_is 3b
    again 2b, 8192
    b survived
status_landing:
    nop
    svc #0
    svc #0

@ 14: more code than the code cache has room for. Parameter 1: the MMU is on.
much_code:
    may_map
    ldr r4, =0x40400000
    ldr r5, =0x40400000 + 4 * 70000
    ldr r6, =0xea000000             @ B to the word behind the next
    ldr r7, =0xe2800001             @ ADD r0, r0, #1
1:  stm r4!, {r6, r7}
    cmp r4, r5
    blo 1b
    ldr r7, =0xe12fff1e
    str r7, [r4]
    str r7, [r4, #4]
    publish_all
    mov r5, #3
2:  ldr r4, =0x40400000
    mov r0, #0
    blx r4
    ldr r4, =0x40400004             @ the words between: another 35,000 blocks
    blx r4
    subs r5, r5, #1
    bne 2b
    show sum, r0
    b survived

    .ltorg

@ 15: a loop that rewrites itself, and the code before and behind it. Parameter 1: the MMU is on. It has a page of its
@ own: in place, code runs only where it can be told from data.
    .balign 0x1000
rewriting:
    may_map
    mov r4, #0
    ldr r5, =5000
1:  adr r1, 2f
    ldr r2, =0xe2800000             @ ADD r0, r0, #n
    and r3, r4, #15
    orr r2, r2, r3
    mov r0, #0
    str r2, [r1]
    mcr p15, 0, r1, c7, c11, 1
    dsb
    mcr p15, 0, r1, c7, c5, 1
    mcr p15, 0, r1, c7, c5, 6
    dsb
    isb
2:  nop
    cmp r0, r3
    bne 3f
    add r4, r4, #1
    cmp r4, r5
    blo 1b
    b survived
3:  say "\nold code ran"
    b power_off
    .ltorg
    .balign 0x1000

@ 16: exception vectors that are nowhere.
no_vectors:
    vectors_at ABSENT
    udf #0
    b survived

@ 17: vectors that raise the exception that they serve, for ever.
looping_vectors:
    vectors_at bad_vectors
    udf #0
    b survived

@ 18: the MMU goes on with tables that map nothing.
nothing_mapped:
    ldr r0, =TABLES
    mov r1, #0
    mov r2, #0
1:  str r1, [r0, r2]
    add r2, r2, #4
    cmp r2, #0x4000
    blo 1b
    bl mmu_on
    b survived

@ 19: sleeps for ever.
asleep:
    cpsid aif
1:  wfi
    b 1b

@ 20: spins for ever.
spinning:
    cpsid aif
    b .

@ 21: an interrupt that is never served.
unserved:
    bl enable_timer
    mov r1, #1
    mov r0, #0
    mcrr p15, 3, r0, r0, c14
    mcr p15, 0, r1, c14, c3, 1
    mov r0, #0
    ldr r1, =returning_vectors
    mcr p15, 0, r1, c12, c0, 0
    isb
    cpsie i
1:  add r0, r0, #1
    b 1b

@ 22: Thumb, in the kernel. 23: BXJ. 24: big-endian data. 25: exceptions in Thumb. 26: exceptions with big-endian data.
thumb:
    adr r0, 1f + 1
    bx r0
    .thumb
1:  ldr r0, =survived
    bx r0
    .balign 4
    .arm
bxj:
    ldr r0, =survived
    bxj r0
big:
    setend be
    ldr r0, [sp, #-4]
    b survived
thumb_exceptions:
    mov r1, #1 << 30
    b exceptions
big_exceptions:
    mov r1, #1 << 25
exceptions:
    mrc p15, 0, r0, c1, c0, 0
    orr r0, r0, r1
    set_sctlr r0
    svc #0
    b survived

@ 27: user code that attacks: sleeps, supervisor calls with the numbers of translated code, the hypervisor region,
@ unallocated words.
user_attack:
    bl identity
    next_is 3f
2:  get r0, attempts
    cps #MODE_SYS
    ldr sp, =STACK_SYS
    cps #MODE_SVC
    ldr r1, =MODE_USR
    tst r0, #1
    orrne r1, r1, #0x200            @ big-endian data
    msr spsr_cxsf, r1
    ldr r1, =user_attacks
    lsr r2, r0, #1
    ldr lr, [r1, r2, lsl #2]
    ldr r0, =CODE
    ldr r1, =VCPU_PAGE
    movs pc, lr
3:  next_is 3b
    again 4f, 24
    b survived
4:  bl mmu_on
    b 2b

@ 28: words from the test's generator, executed as user code, a chunk of 8 at a time, in A32 and in T32 by turns. The
@ kernel is out of its reach.
user_garbage:
    bl fill_memory
    bl identity
    bl quiet
    ldr r0, =TABLES                 @ devices, and 0x400, 0x401, 0x403: privileged only
    ldr r1, =0x402
    mov r2, #0
1:  orr r3, r1, r2, lsl #20
    str r3, [r0, r2, lsl #2]
    add r2, r2, #1
    cmp r2, #0x400
    blo 1b
    add r0, r0, #0x1000
    ldr r1, =0x40000402
    str r1, [r0]
    add r1, r1, #0x100000
    str r1, [r0, #4]
    add r1, r1, #0x200000
    str r1, [r0, #12]
    bl enable_timer
    next_is 3f
2:  get r0, attempts
    ldr r4, =image_end
    add r4, r4, r0, lsl #5
    ldm r4, {r5-r12}
    ldr r4, =SCRATCH + 0x1000
    stm r4, {r5-r12}
    ldr r5, =0xef000001             @ SVC
    ldr r6, =0xdf00df00
    tst r0, #1
    moveq r6, r5
    str r6, [r4, #32]
    str r6, [r4, #36]
    dsb
    mcr p15, 0, r0, c7, c5, 0
    mcr p15, 0, r0, c7, c5, 6
    dsb
    isb
    bl mmu_on
    ldr r0, =5000
    mcr p15, 0, r0, c14, c3, 0
    mov r0, #1
    mcr p15, 0, r0, c14, c3, 1
    isb
    cps #MODE_SYS
    ldr sp, =SCRATCH + 0x5000
    mov lr, r4
    cps #MODE_SVC
    get r0, attempts
    mov r1, #MODE_USR
    tst r0, #1
    orrne r1, r1, #0x20
    tst r0, #0x40
    orrne r1, r1, #0x200            @ big-endian data
    msr spsr_cxsf, r1
    mov lr, r4
    ldr r0, =SCRATCH + 0x2000
    mov r1, r0
    ldr r2, =SCRATCH + 0x2800
    mov r3, #4
    ldr r5, =CODE + 0x100
    ldr r6, =VCPU_PAGE
    ldr r7, =REGION
    mvn r8, #0
    mov r9, #64
    ldr r10, =SCRATCH + 0x3000
    ldr r11, =0x80000000
    mov r12, r2
    movs pc, lr
3:  next_is 3b
    again 2b, 1500
    b survived

ua_1: svc #1
ua_2: svc #2
    svc #3
ua_3: .word 0xef000003, 0xee010f10, 0x40010000
ua_4: bx r0
ua_5: str r0, [r1]
ua_6: ldr r0, [r1]
ua_7: add r0, r0, #1
    bx r0
ua_8: .word 0xe320f004              @ SEV
    wfe
    adr r2, ua_7 + 2                @ a misaligned branch
    bx r2
ua_9: .word 0xec510f0e
    svc #0
ua_10: mrc p15, 0, r0, c13, c0, 3
    mcr p15, 0, r0, c13, c0, 2
    mcr p15, 0, r0, c7, c10, 5
    mrc p14, 0, r0, c0, c1, 0
    svc #0
ua_11: rfeia sp
ua_12: ldr r0, =REGION
    ldr r0, [r0]

    .ltorg
    .balign 32
skipping_vectors:
    b recovered
    movs pc, lr
    movs pc, lr
    subs pc, lr, #0
    subs pc, lr, #4
    b recovered
    subs pc, lr, #4
    subs pc, lr, #4
bad_vectors:
    .rept 8
    udf #1
    .endr
returning_vectors:
    b recovered
    b recovered
    b recovered
    b recovered
    b recovered
    b recovered
    subs pc, lr, #4
    b recovered

    .section .data
    .balign 4
attacks:
    .word garbage, vcpu_page, wild_distance, region, calls, map_region, tables, table_places
    .word storm, aborts, firmware, devices, coprocessors, status, much_code, rewriting
    .word no_vectors, looping_vectors, nothing_mapped, asleep, spinning, unserved
    .word thumb, bxj, big, thumb_exceptions, big_exceptions, user_attack, user_garbage
user_attacks:
    .word ua_1, ua_2, ua_3, ua_4, ua_5, ua_6, ua_7, ua_8, ua_9, ua_10, ua_11, ua_12
values:
    .word 0, -1, 1, 0x10, 0x13, 0x1d3, 0x1f, 0x80000000
    .word 0x40010020, 0xf1801000, 0xf1801100, 0xf6000000, 0xfffffffc, 4, 0x40200000, 0x3f
places:
    .word 0, 0x08000000, 0x09000000, 0x0b000000, TABLES, TABLES + 0x1000, 0x40000000, 0x43ffc000
    .word 0x44000000, 0x7fffc000, 0xffffc000, 0xf1800000, 0xf6000000, 0x0a000000, SCRATCH, 0x80000000
firmware_bases:
    .word 0x84000000, 0xc4000000, 0x80000000, 0x82000000, 0, 0xffffffc0, 0x86000000, 0xbf00ff00
device_bases:
    .word 0x08000000, 0x08010000, 0x09000000, 0x09010000, 0x09030000, 0x0a000000, 0x0a003000, 0x09020000
    .word 0x0800f000, 0x08020000
@ MCR that change where this code runs, or wait: SCTLR, TTBR0, VBAR, WFI.
forbidden:
    .word 0xee010f10, 0xee0c0f10, 0xee070f90
    .word 0
    .section .text
    .ltorg
