@ Traps that are answered without leaving assembly: indirect branches, changes of DACR, exception returns, maintenance
@ of single TLB entries, cleaning of cache lines, unprivileged accesses, the timer, masks that stay, and the system
@ calls of guest user code.
@
@ They are the frequent ones. Whatever is out of the ordinary takes the slow path, to Rust (switch.s), and nothing has
@ been changed then. The trust rule: all that comes from the vCPU page is the guest's own business; where it leads,
@ the real PSR, tables, DACR and vectors come from privileged memory or are masked here.
@
@ In each, the SP of the mode is the Cpu. R0 to R7 are saved at its start, and behind them, where R8 has its place, is
@ where the guest goes on: LR. A handler leaves in one of two ways: to the guest, by GO_ON, with SPSR = its PSR; or to
@ slow_path (user code: 1f and the like), with LR and SPSR as the exception left them and nothing of the guest's
@ changed. R8 to R14 are the guest's all along. Those that need more registers save R8 to R12, too, which is over what
@ GO_ON goes to. Flags are free. Names in capitals come from the Rust types: assembly.rs.

.section .text.world, "ax"
.arm

@ To the view whose struct ViewRegisters is at \view: its tables and vectors; the exception return is the ISB. Uses
@ R0, R1, R3, R7. Where both views have one table (SEPARATION), that is there already, unless \away says that we are in
@ the host address space, and DACR is what keeps them apart; else DACR is the kernel view's all along.
.macro SWITCH view, away=0
    WORDS VIEW_REGION_TTBR0, VIEW_TTBR0, VIEW_CONTEXTIDR, VIEW_VBAR
    .if \view + VIEW_VBAR == -4
    ldmdb sp, {{r0, r1, r3, r7}}
    .else
    sub r7, sp, #-(\view + VIEW_REGION_TTBR0)
    ldm r7, {{r0, r1, r3, r7}}
    .endif
    .if \away || !BY_DOMAINS
    CHANGE_TABLES r0, r1, r3
    .endif
    .if BY_DOMAINS
    ldr r1, [sp, #\view + VIEW_DACR]
    mcr p15, 0, r1, c3, c0, 0
    .endif
    mcr p15, 0, r7, c12, c0, 0      @ VBAR
.endm

@ Where GO_ON goes, from SP.
.equ GOES_ON, 8 * 4

@ To where GOES_ON says, with R0 to R7 from their places, by an exception return (B9.3.5).
.macro GO_ON
    ldmia sp, {{r0-r7, pc}}^
.endm

.macro COUNT offset
    ldr r5, [sp, #\offset]
    add r5, r5, #1
    str r5, [sp, #\offset]
.endm

@ TPIDRURW was user code's until here, and is lent to the kernel, which is entered (in_place::instead in spica_dbt).
@ \page holds the address of the vCPU page; uses R7. All of it is under condition \cond. What was written is read by
@ the same instruction: no barrier is needed (B3.15.5).
.macro LEND_TO_KERNEL page, cond
    mrc\cond p15, 0, r7, c13, c0, 2
    str\cond r7, [\page, #PAGE_TPIDRURW]
    ldr\cond r7, [\page, #PAGE_TPIDRURO]
    mcr\cond p15, 0, r7, c13, c0, 2
.endm

@ The same, if it is so. Uses the flags.
.macro MAY_LEND_TO_KERNEL page
    ldr r7, [sp, #CTX_CALL_FLOOR]
    cmp r7, #NOT_LENT
    LEND_TO_KERNEL \page, ne
.endm

@ SP and LR of user code go to their bank, and those of the exception's mode come from \bank, with the address that it
@ was taken at, LR, as the latter. R0 = SPSR, as the exception left it. Out: the guest's SPSR, and its mode and masks,
@ \entry; SPSR for its vector, translated: the guest's flags, User mode, A32 state, FIQs masked. \page holds the
@ address of the vCPU page. With \plain, IT[1:0] and J are 0. Uses R0, R6, R7.
.macro TAKE_EXCEPTION page, bank, entry, plain=0
    WORDS PAGE_SPSR, PAGE_CONTROL
    bic r6, r0, #PSR_MASKS
    ldr r7, =\entry
    stmdb \page, {{sp, lr}}^
    strd r6, r7, [\page, #PAGE_SPSR]           @ and PAGE_CONTROL
    str lr, [\page, #\bank + BANKED_LR]
    .if \bank == BANK_SVC
    ldmib \page, {{sp, lr}}^
    .else
    add r6, \page, #\bank
    ldmib r6, {{sp, lr}}^
    .endif
    .if \plain == 0
    bic r0, r0, #PSR_J_IT
    .endif
    msr spsr_xc, #(PSR_FMASK | MODE_USR)        @ no banked register right behind LDM ^ (B9.3.5)
    .if \plain == 0
    msr spsr_f, r0
    .endif
.endm

@ From user code to the block at R4, as kernel code: an exception that is the guest's own. SPSR is the block's. \page
@ holds the address of the vCPU page; \goes_on is how many registers are saved at SP, below where it goes on. \away: as
@ in SWITCH. Uses R0, R1, R3 and R7.
@
@ \lent: V says whether TPIDRURW is lent, instead of a comparison.
@
@ PAGE_DACR_REAL is what it was when the kernel was left. The exclusive monitor is what the guest made of it, as where
@ a core takes an exception (A3.4.4): nothing here has used it.
.macro ENTER_KERNEL page, goes_on, away=0, lent=0
    SWITCH CTX_KERNEL, \away
    str r4, [sp, #4 * (\goes_on)]
    .if \lent
    LEND_TO_KERNEL \page, vs
    .else
    MAY_LEND_TO_KERNEL \page
    .endif
    SPILL_TO_KERNEL \page
    .if \goes_on == 8
    ldmia sp, {{r0-r7, pc}}^
    .else
    ldmia sp, {{r0-r10, pc}}^
    .endif
.endm

@ SVC from guest user code: the guest's system call, straight to the translated vector if there is one (B1.9.4).
@ In: LR = behind the SVC, SPSR. Out: the block at CTX_CALL_ENTRY as kernel code, or user_call. Uses R0 to R7.
    HANDLER fast, "system calls of user code"
user_supervisor_call:
    stmia sp, {{r0-r7}}
    WORDS CTX_CALL_ENTRY, CTX_CALL_FLOOR
    ldrd r4, r5, [sp, #CTX_CALL_ENTRY]          @ and CTX_CALL_FLOOR
    mrs r0, spsr
    ldr r2, [sp, #CTX_PAGE]
    cmp r4, r5                      @ none, if it is 0; V: TPIDRURW is lent
    tsths r0, #NOT_USR              @ User mode; V stays (A8.8.240)
    tsteq r0, #PSR_J_IT
    bne 1f
    TAKE_EXCEPTION r2, BANK_SVC, ENTRY_SVC, 1
    COUNT CTX_USER_CALLS
    SWITCH CTX_KERNEL
    str r4, [sp, #GOES_ON]
    LEND_TO_KERNEL r2, vs
    SPILL_TO_KERNEL r2
    GO_ON
1:  ldmia sp, {{r0-r7}}
    b user_call

@ SVC from translated guest kernel code.
@
@ It was executed in A32 state, so it is at LR - 4, and nothing but code pages is executable in this view: it can be
@ read, and it is a word that the translator wrote, if not always one that it meant as an instruction.
@
@ In: LR = behind the SVC, SPSR. To a handler by its number's low byte, with R0 = SPSR, R1 = that byte, R2 = the vCPU
@ page; R3 to R7 are free there, and R0 to R2 as well.
    HANDLER fast, "dispatch of traps of kernel code"
kernel_supervisor_call:
    stmia sp, {{r0-r7, lr}}
    mrs r0, spsr
    ldr r2, [sp, #CTX_PAGE]
    tst r0, #PSR_T | NOT_USR        @ SPSR.T, and User mode
    ldrbeq r1, [lr, #-4]            @ numbers that are none of these: harmless, see the trust rule
    ldreq pc, [pc, r1, lsl #2]
    b slow_path
    .set number, 0
    .rept 256
    .if number == SVC_INDIRECT
    .word indirect
    .elseif number == SVC_EMULATE
    .word emulate
    .elseif number == SVC_EMULATE_T32
    .word emulate_t32
    .elseif number == SVC_DACR
    .word domain_access
    .elseif number >= SVC_DACR_IN_PLACE && number < SVC_DACR_IN_PLACE + 8
    .word domain_access_in_place + DOMAIN_ACCESS_BYTES * (number - SVC_DACR_IN_PLACE)
    .elseif number == SVC_EXCEPTION_RETURN
    .word exception_return
    .elseif number == SVC_LENT_EXCEPTION_RETURN
    .word lent_exception_return
    .elseif number == SVC_LENT_VECTOR_RETURN
    .word lent_vector_return
    .elseif number == SVC_TLB_PAGE
    .word forget_page
    .elseif number == SVC_UNPRIVILEGED_LOAD
    .word unprivileged_load
    .elseif number == SVC_UNPRIVILEGED_STORE
    .word unprivileged_store
    .elseif number == SVC_VFP
    .word turn_vfp_off
    .elseif number == SVC_COUNTER
    .word counter
    .elseif number == SVC_TTBR0
    .word table_base
    .elseif number == SVC_CONTEXTIDR
    .word context_id
    .elseif number == SVC_TLB_RANGE
    .word forget_range
    .elseif number == SVC_CLEAN_LINE
    .word clean_line
    .elseif number == SVC_FORGET_LINE
    .word forget_line
    .elseif number >= SVC_CLEAN_LINES && number < SVC_CLEAN_LINES + 8
    .word clean_lines + LINES_BYTES * (number - SVC_CLEAN_LINES)
    .elseif number >= SVC_FORGET_LINES && number < SVC_FORGET_LINES + 8
    .word forget_lines + LINES_BYTES * (number - SVC_FORGET_LINES)
    .elseif number >= SVC_CLEAN_LINES_AT_R12 && number < SVC_CLEAN_LINES_AT_R12 + 8
    .word clean_lines_at_r12 + LINES_AT_R12_BYTES * (number - SVC_CLEAN_LINES_AT_R12)
    .elseif number >= SVC_FORGET_LINES_AT_R12 && number < SVC_FORGET_LINES_AT_R12 + 8
    .word forget_lines_at_r12 + LINES_AT_R12_BYTES * (number - SVC_FORGET_LINES_AT_R12)
    .else
    .word slow_path
    .endif
    .set number, number + 1
    .endr
@ In: LR and SPSR as the exception left them. Restores R0 to R7.
slow_path:
    ldmia sp, {{r0-r7}}
    b kernel_call

@ An indirect branch whose target is in the jump cache. In: R2, SPSR stays. Out: its block. Uses R0 to R3, R5.
    HANDLER fast, "indirect branches by the jump cache"
indirect:
    ldr r3, [sp, #CTX_LEAVE]
    ldr r1, [sp, #CTX_JUMP_CACHE]
    ldr r0, [r2, #PAGE_TARGET]
    cmp r3, #0                      @ an interrupt waits for the end of the block
    WORDS JUMP_GUEST, JUMP_HOST
    ubfx r2, r0, #2, #JUMP_BITS
    add r1, r1, r2, lsl #JUMP_ENTRY_BITS
    ldm r1, {{r2, r3}}
    cmpeq r2, r0
    bne slow_path
    str r3, [sp, #GOES_ON]
    COUNT CTX_HITS
    GO_ON

@ DACR was written, and may have to be closed: the real one becomes what the guest's is. In: R2. Uses R3 to R7. With
@ \register, the SVC is the write itself, of that one.
.equ DOMAIN_ACCESS_BYTES, 11 * 4
.macro DOMAIN_ACCESS register
    .ifnb \register
    ldr r3, [sp, #4 * (\register)]
    .else
    ldr r3, [r2, #PAGE_DACR]
    .endif
    ldrd r4, r5, [sp, #CTX_DACR_PAIRS]          @ a DACR of the guest, and the real one for it
    cmp r3, r4
    ldrdne r4, r5, [sp, #CTX_DACR_PAIRS + 8]
    cmpne r3, r4
    bne other_domain_access
    mcr p15, 0, r5, c3, c0, 0       @ the exception return is the ISB (B3.15.5): before it, all is in domains that stay
    .ifnb \register
    str r3, [r2, #PAGE_DACR]
    .endif
    str r3, [r2, #PAGE_DACR_REAL]
    strd r4, r5, [sp, #CTX_KERNEL + VIEW_GUEST_DACR]    @ and VIEW_DACR
    GO_ON
.endm

    HANDLER fast, "DACR"
domain_access:
    DOMAIN_ACCESS
    HANDLER fast, "DACR"
domain_access_in_place:
    .set number, 0
    .rept 8
    DOMAIN_ACCESS number
    .set number, number + 1
    .endr
    .if . - domain_access_in_place != 8 * DOMAIN_ACCESS_BYTES
    .error "these are not as long as the dispatch has it"
    .endif

@ The same, of none of the two values that are at hand. Manager domains and domain 15 are for Rust (see
@ Shadow::set_dacr; the functions here are those of Separation). In: R2, R3 = what the guest writes.
    PART fast, "DACR"
other_domain_access:
    ldr r4, [sp, #CTX_KERNEL + VIEW_GUEST_DACR]
    ldr r7, =DACR_CLIENTS
    and r5, r3, r3, lsr #1
    and r6, r4, r4, lsr #1
    orr r5, r5, r6
    eor r6, r3, r4
    and r5, r5, r7
    orrs r5, r5, r6, lsr #BAKED_FROM
    bne slow_path
    ldrd r6, r7, [sp, #CTX_DACR_PAIRS]
    strd r6, r7, [sp, #CTX_DACR_PAIRS + 8]
    mov r4, r3
    .if BY_DOMAINS
    ldr r7, =DACR_SHARED
    and r5, r3, r7
    ldr r7, =DACR_ALWAYS
    orr r5, r5, r5, lsl #DACR_PRIVILEGED_ALONE
    orr r5, r5, r7
    .else
    ldr r7, =DACR_CLIENTS
    and r5, r3, r7
    orr r5, r5, #DACR_ALWAYS
    .endif
    strd r4, r5, [sp, #CTX_DACR_PAIRS]
    mcr p15, 0, r5, c3, c0, 0       @ as above
    str r3, [r2, #PAGE_DACR]
    str r3, [r2, #PAGE_DACR_REAL]
    strd r4, r5, [sp, #CTX_KERNEL + VIEW_GUEST_DACR]
    GO_ON

@ TTBR0 or CONTEXTIDR was written: to the space that they select now, if it is known (struct SpaceSlot). In: R2, LR =
@ where the block goes on. Uses R0, R1, R3 to R7.
    HANDLER fast, "switches of address spaces"
context_id:
    ldr r1, [r2, #PAGE_TARGET]
    ldr r0, [sp, #CTX_GUEST_TTBR0]
    b 1f
    HANDLER fast, "switches of address spaces"
table_base:
    ldr r0, [r2, #PAGE_TARGET]
    ldr r1, [sp, #CTX_GUEST_CONTEXTIDR]
1:  ldr r3, [sp, #CTX_SPACES]
    WORDS SLOT_TTBR0, SLOT_MASK, SLOT_ASID
    eor r4, r0, r0, lsr #SLOT_SET_BITS          @ spaces::first_slot
    ubfx r4, r4, #14, #SLOT_SET_BITS
    add r3, r3, r4, lsl #SLOT_SET_BYTES_BITS
    ldm r3!, {{r4, r5, r6}}         @ TTBR0, mask, ASID
    and r5, r5, r1
    cmp r4, r0
    cmpeq r5, r6
    bne 3f
2:  str r0, [sp, #CTX_GUEST_TTBR0]
    str r1, [sp, #CTX_GUEST_CONTEXTIDR]
    str r0, [r2, #PAGE_TTBR0]
    str r1, [r2, #PAGE_CONTEXTIDR]
    WORDS SLOT_ASID, SLOT_KERNEL, SLOT_KERNEL + 4, SLOT_USER, SLOT_USER + 4, SLOT_TLB_ASID
    ldr r0, [r3, #SLOT_PRIVATE - SLOT_KERNEL]
    ldm r3, {{r3, r4, r5, r6, r7}}  @ the tables of both views, the ASID whose pages are forgotten here
    str r0, [sp, #CTX_PRIVATE]
    str r3, [sp, #CTX_KERNEL + VIEW_TTBR0]
    str r4, [sp, #CTX_KERNEL + VIEW_CONTEXTIDR]
    str r5, [sp, #CTX_USER + VIEW_TTBR0]
    str r6, [sp, #CTX_USER + VIEW_CONTEXTIDR]
    str r7, [sp, #CTX_TLB_ASID]
    str sp, [sp, #CTX_SPACE_SWITCHED]
    ldr r7, =NO_PAGE
    str r7, [sp, #CTX_FORGET_MEGABYTE]
    str r7, [sp, #CTX_LINE_PAGE]
    str r7, [r2, #PAGE_UNPRIVILEGED_READ]
    str r7, [r2, #PAGE_UNPRIVILEGED_WRITE]
    ldr r7, [sp, #CTX_REGION_TTBR0]
    CHANGE_TABLES r7, r3, r4        @ the return synchronises
    COUNT CTX_SPACE_SWITCHES
    GO_ON
3:  add r3, r3, #SLOT_BYTES - SLOT_KERNEL       @ the set's second
    ldm r3!, {{r4, r5, r6}}
    and r5, r5, r1
    cmp r4, r0
    cmpeq r5, r6
    beq 2b
    b slow_path

@ The generic timer's counter, into R3 and R4: count + ((clock - base) * (whole, part) + fraction), see struct Clock.
@ The same arithmetic, to the bit, as Host::guest_now's, so that the counter never goes back. To \none where assembly
@ cannot read the clock. Uses R0 to R7.
.macro READ_COUNTER none
    WORDS CLOCK_ADDRESS, CLOCK_COMPLEMENT, CLOCK_BASE, CLOCK_WHOLE, CLOCK_PART, CLOCK_PART + 4, CLOCK_FRACTION
    WORDS CLOCK_FRACTION + 4, CLOCK_COUNT
    sub r0, sp, #-(CTX_CLOCK)
    ldm r0!, {{r1, r3, r4, r5, r6, r7}}     @ address, complement, base, whole, part
    cmp r1, #0
    beq \none
    ldr r1, [r1]
    eor r1, r1, r3
    sub r1, r1, r4                  @ host ticks since base
    ldm r0!, {{r3, r4}}             @ fraction
    mov r2, #0
    umaal r3, r2, r1, r6
    umaal r4, r2, r1, r7            @ R2: whole ticks that the parts come to
    ldm r0, {{r3, r4}}              @ count
    umaal r3, r2, r1, r5
    add r4, r4, r2
.endm

@ The counter, to the vCPU page. In: LR = where the block goes on. Uses R0 to R7.
    HANDLER fast, "the timer's counter"
counter:
    READ_COUNTER slow_path
    ldr r2, [sp, #CTX_PAGE]
    str r3, [r2, #PAGE_COUNTER]
    str r4, [r2, #PAGE_COUNTER + 4]
    COUNT CTX_COUNTER_READS
    GO_ON

@ An instruction to interpret, whose word is at LR: if it restores a mask (masks_written), or reads CNTP_CTL or
@ CNTV_CTL, or writes that or CNTP_CVAL or CNTV_CVAL (B4.1.25 to 35) so that the timer's line is low behind it. Whatever
@ else it is, or does, is for Rust. The word is one of a code page, as the SVC is, if it is not in another page than
@ that; where the block goes on is behind the literals.
@
@ In: LR = behind the SVC. Uses R0 to R12.
    HANDLER fast, "the timer's registers"
emulate:
    ldr r7, [sp, #CTX_TIMER_QUICK]
    lsls r3, lr, #20                @ in the page of the SVC
    cmpne r7, #0
    beq slow_path
    ldr r3, [lr]
    ldr r4, =0xee1e0f32             @ MRC p15, 0, R0, c14, c2, 1; the virtual timer's is with c3
    bic r5, r3, #0xf000
    ubfx r1, r3, #12, #4            @ Rt
    and r6, r3, #1
    bic r5, r5, #1
    cmp r1, #12
    bhi masks_written               @ MSR has ones there
    add r6, sp, r6, lsl #TIMER_BITS
    cmp r5, r4
    beq timer_control_read
    bic r4, r4, #0x00100000         @ MCR
    cmp r5, r4
    beq timer_control_write
    ldr r4, =0xec400f2e             @ MCRR p15, 2, R0, R0, c14; the virtual timer's is with 3
    bic r5, r3, #0xff000
    ubfx r6, r3, #4, #1
    bic r5, r5, #0x10
    add r6, sp, r6, lsl #TIMER_BITS
    cmp r5, r4
    bne may_unmask
    ubfx r3, r3, #16, #4            @ Rt2
    ldr r4, [r6, #CTX_TIMER_CONTROL]
    cmp r3, #12
    bhi slow_path
    add r0, sp, #4 * 8
    stmia r0, {{r8-r12}}
    cmp r4, #1                      @ enabled and not masked: the line may rise, at another time than before
    ldr r5, [sp, r1, lsl #2]
    ldr r7, [sp, r3, lsl #2]
    moveq r8, r5
    moveq r9, r7
    beq arm_timer
    str r5, [r6, #CTX_TIMER_COMPARE]
    str r7, [r6, #CTX_TIMER_COMPARE + 4]
@ In: R0 to R12 as they are to be are saved at SP, LR = behind the SVC. Out: behind its literals.
timer_written:
    str sp, [sp, #CTX_TIMER_CHANGED]
    str sp, [sp, #CTX_ANSWERED]
    str sp, [r6, #CTX_TIMER_WRITTEN]
@ The same, where the timer is as it was.
timer_accessed:
    COUNT CTX_TIMER_ACCESSES
    add lr, lr, #EMULATE_LITERAL_BYTES
    ldmia sp, {{r0-r12}}
    movs pc, lr

@ What a guest's kernel writes to its CPSR, in its register R1, against what it has there, R0: R5 is the difference, of
@ which the low byte counts. In: R2. R8 to R12 are saved.
.macro COMPARE_CONTROL
    cmp r1, #12
    bhi slow_path
    add r0, sp, #4 * 8
    stmia r0, {{r8-r12}}
    ldr r0, [r2, #PAGE_CONTROL]
    ldr r5, [sp, r1, lsl #2]
    eor r5, r5, r0
.endm

@ MSR CPSR_c in T32, from Supervisor to System mode or back, and nothing else of the CPSR changes. Linux reaches SP and
@ LR of user code so, as there is no LDM or STM of user registers in T32: four times in a system call. In: R2, LR =
@ behind the SVC, which may be any whose number ends as this one's. Uses R0, R1, R3 to R6.
    HANDLER fast, "changes of mode"
emulate_t32:
    lsls r3, lr, #20                @ in the page of the SVC
    ldr r1, [lr, #-4]
    beq slow_path
    ldr r4, =0xef000000 + SVC_EMULATE_T32       @ in no IT block
    ldr r3, [lr]
    cmp r1, r4
    ldreq r4, =MSR_CPSR_C_T32
    biceq r5, r3, #0xf0000
    cmpeq r5, r4
    bne slow_path
    ubfx r1, r3, #16, #4
    COMPARE_CONTROL
    uxtb r5, r5
    cmp r5, #MODE_SVC ^ MODE_SYS
    bne 3f
    and r1, r0, #PSR_MODE
    eor r0, r0, r5
    ldr r5, [r2, #PAGE_SPSR]
    cmp r1, #MODE_SVC
    bne 1f
    ldr r4, [r2, #BANK_USR]
    str r5, [r2, #BANK_SVC]
    stmib r2, {{sp, lr}}^
    ldmdb r2, {{sp, lr}}^
    b 2f
1:  cmp r1, #MODE_SYS
    bne slow_path
    ldr r4, [r2, #BANK_SVC]
    str r5, [r2, #BANK_USR]
    stmdb r2, {{sp, lr}}^
    ldmib r2, {{sp, lr}}^
2:  str r0, [r2, #PAGE_CONTROL]
    str r4, [r2, #PAGE_SPSR]
    COUNT CTX_MODE_CHANGES
    add lr, lr, #EMULATE_LITERAL_BYTES
    str lr, [sp, #GOES_ON]
    GO_ON
3:  cmp r5, #0
    bne slow_path
    tst r0, #PSR_I
    bne masks_stay
    b slow_path                     @ an interrupt is taken from A32 state only

@ An instruction to interpret, MSR CPSR_c, that translated code has done already (rules::status::write of spica_dbt), or
@ that has nothing to do: what is to be written is there. An interrupt waits. If it is masked, the guest goes on: Linux
@ saves and restores its mask again and again where interrupts stay masked for long. In: R2, R3 = the instruction, LR =
@ behind the SVC. Uses R0, R1, R4, R5.
    HANDLER fast, "changes of mode"
masks_written:
    ldr r4, =MSR_CPSR_C
    bic r5, r3, #0xf000000f         @ its condition has passed
    and r1, r3, #0xf
    cmp r5, r4
    bne slow_path
    COMPARE_CONTROL
    tst r5, #0xff
    bne slow_path
@ In: R0 = the guest's mode and masks. Uses R5.
masks_stay:
    tst r0, #PSR_I
    beq take_interrupt
    COUNT CTX_MASKS_KEPT
    add lr, lr, #EMULATE_LITERAL_BYTES
    str lr, [sp, #GOES_ON]
    GO_ON

@ The same for CPSIE i. In: R3 = the instruction.
may_unmask:
    ldr r4, =CPSIE_I
    cmp r3, r4
    bne slow_path
@ The kernel has unmasked interrupts, and one waits: it takes it behind that instruction (B1.9.10), if it is in
@ Supervisor mode, as interrupt::unmasked does. So each sleep of Linux's ends. If a timer was written to meanwhile, Rust
@ has to learn of that before the interrupt is acknowledged: then it may do both. In: R2, LR = behind the SVC. Uses R0,
@ R1, R3 to R7.
take_interrupt:
    WORDS PAGE_SPSR, PAGE_CONTROL
    ldrd r6, r7, [r2, #PAGE_SPSR]               @ and PAGE_CONTROL
    ldr r4, [sp, #CTX_INTERRUPT_ENTRY]
    ldr r5, [sp, #CTX_SLOW_PATH]
    ldr r3, [sp, #CTX_TAKES_INTERRUPTS]
    and r1, r7, #(PSR_MODE | PSR_I)
    cmp r1, #MODE_SVC
    cmpeq r5, #IRQ_WAITS
    bne slow_path
    cmp r4, #0
    cmpne r3, #0
    beq slow_path
    ldr r3, [sp, #CTX_TIMER_CHANGED]
    ldr r5, [lr, #4]                @ the instruction's address
    cmp r3, #0
    bne slow_path
    mrs r0, spsr
    ldr r3, =ENTRY_IRQ
    str r6, [r2, #BANK_SVC]
    stmib r2, {{sp, lr}}^
    bfi r0, r7, #0, #10             @ as MRS reads it
    and r1, r7, #PSR_FMASK          @ F stays
    add r5, r5, #8
    orr r1, r1, r3
    add r6, r2, #BANK_IRQ
    strd r0, r1, [r2, #PAGE_SPSR]
    str r5, [r6, #BANKED_LR]
    ldmib r6, {{sp, lr}}^
    mov r3, #0
    str r3, [sp, #CTX_LEAVE]
    str r4, [sp, #GOES_ON]
    COUNT CTX_UNMASKED
    GO_ON

@ In: R1 = Rt, R6 = SP, and so much more for the virtual timer.
timer_control_write:
    add r0, sp, #4 * 8
    stmia r0, {{r8-r12}}
    ldr r5, [sp, r1, lsl #2]
    ldr r4, [r6, #CTX_TIMER_CONTROL]
    and r5, r5, #3
    cmp r5, #1
    strne r5, [r6, #CTX_TIMER_CONTROL]
    bne timer_written
    cmp r4, #1                      @ enabled and not masked, as it was
    beq timer_accessed
    ldr r8, [r6, #CTX_TIMER_COMPARE]
    ldr r9, [r6, #CTX_TIMER_COMPARE + 4]

@ The timer at R6 is to be enabled and not masked, with compare value R8 and R9, which is to come: the host's timer is
@ set for that, if nothing else that it is needed for is before. As HostTimer::set_deadline and Host::host_time have
@ it: the guest's timer has reached its value when the interrupt comes. What lies on a tick of the host's timer is a bit
@ below it by CTX_ALARM_PART, by up to 2^-8 for 2^24 ticks, so farther away there is a tick more. R0 to R12 are saved.
arm_timer:
    ldr r10, [sp, #CTX_ALARM_CONTROL]
    rsb r0, r6, sp, lsl #1
    ldr r2, [sp, #CTX_TIMER_LATEST]
    add r0, r0, #TIMER_BYTES        @ the other timer: SP and TIMER_BYTES - (R6 - SP)
    ldr r3, [sp, #CTX_TIMER_LATEST + 4]
    ldr r0, [r0, #CTX_TIMER_CONTROL]
    cmp r10, #0
    beq timer_not_answered
    cmp r0, #1                      @ the other one has a deadline, too
    beq timer_not_answered
    cmp r2, r8
    sbcs r3, r3, r9
    blo timer_not_answered
    ldr r0, [sp, #CTX_ALARM_STOP]
    str sp, [sp, #CTX_TIMER_ARMED]  @ from here on Rust sets it anew, if this comes to Rust after all
    str sp, [sp, #CTX_ANSWERED]
    mov r11, r6
    str r0, [r10]
    READ_COUNTER timer_not_answered
    subs r3, r8, r3
    sbcs r4, r9, r4
    blo timer_not_answered          @ passed
    cmp r4, #0
    cmpeq r3, #1
    blo timer_not_answered          @ now
    cmp r4, #0
    bne timer_not_answered          @ in more than a minute
    ldr r5, [sp, #CTX_ALARM_PART]
    ldr r0, [sp, #CTX_ALARM_WHOLE]
    umull r2, r5, r3, r5
    cmp r3, #0x1000000
    movlo r2, #1
    movhs r2, #2
    umaal r2, r5, r3, r0            @ ticks of the host's
    cmp r5, #0
    cmpeq r2, #0x40000000
    bhs timer_not_answered
    WORDS CLOCK_ADDRESS, CLOCK_COMPLEMENT, CLOCK_BASE
    sub r0, sp, #-(CTX_CLOCK)
    ldm r0, {{r4, r5, r6}}
    ldr r7, [sp, #CTX_ALARM_PAUSE]
1:  ldr r0, [r4]
    eor r0, r0, r5
    sub r0, r0, r6
    sub r0, r0, r1                  @ ticks since the counter was read, behind the stop
    cmp r0, r7
    blo 1b
    ldr r4, [sp, #CTX_ALARM_INTERVAL]
    ldr r5, [sp, #CTX_ALARM_START]
    subs r2, r2, r0
    movls r2, #1
    str r2, [r4]
    str r5, [r10]                   @ registers of one device: in this order (A3.8.3)
    mov r0, #ALARM_SET
    str r8, [r11, #CTX_TIMER_COMPARE]
    str r9, [r11, #CTX_TIMER_COMPARE + 4]
    str r0, [sp, #CTX_TIMER_ARMED]
    str r0, [r11, #CTX_TIMER_CONTROL]           @ enabled, not masked
    mov r6, r11
    COUNT CTX_ALARMS
    b timer_written

@ In and out: as timer_control_write. ISTATUS says whether the timer, if it is enabled, has reached its compare value.
timer_control_read:
    add r0, sp, #4 * 8
    stmia r0, {{r8-r12}}
    ldr r9, [r6, #CTX_TIMER_CONTROL]
    mov r8, r1
    mov r10, r6
    tst r9, #1
    beq 1f
    READ_COUNTER timer_not_answered
    ldr r6, [r10, #CTX_TIMER_COMPARE]
    ldr r7, [r10, #CTX_TIMER_COMPARE + 4]
    cmp r3, r6
    sbcs r4, r4, r7
    orrhs r9, r9, #4
1:  str r9, [sp, r8, lsl #2]
    b timer_accessed
timer_not_answered:
    ldmia sp, {{r0-r12}}
    b kernel_call
    .ltorg

@ An exception return (B9.3.19): the SPSR becomes the CPSR, the target is in the vCPU page. In: R2. Out: user code, in
@ the user view; or by return_to_kernel. Uses R0 to R7. With \lent, TPIDRURW is lent: user code gets it back.
@
@ User code runs from the real caches: what the guest has invalidated goes before it runs again.
.macro EXCEPTION_RETURN lent
    WORDS CTX_SLOW_PATH, CTX_USER + VIEW_GUEST_DACR
    WORDS PAGE_SPSR, PAGE_CONTROL
    WORDS PAGE_STALE, PAGE_DACR
    WORDS PAGE_TPIDRURW, PAGE_TPIDRURO
    ldr r3, =(PSR_MODE | PSR_MASKS | PSR_IT | PSR_UNUSED)
    ldrd r0, r1, [r2, #PAGE_SPSR]               @ and PAGE_CONTROL
    and r3, r0, r3
    cmp r3, #MODE_USR
    bne 3f
    ldrd r6, r7, [sp, #CTX_SLOW_PATH]           @ and the user view's VIEW_GUEST_DACR
    and r1, r1, #PSR_MODE
    ldrd r4, r5, [r2, #PAGE_STALE]              @ and PAGE_DACR
    teq r1, #(MODE_SVC << 2), #2    @ a rotated constant: C = 0
    teqeq r5, r7
    teqeq r6, #0
    cmpeq r4, #0                    @ C = 1: it is but for this
    bne 2f
1:  str r0, [r2, #BANK_SVC]         @ the SPSR
4:  .if \lent
    ldrd r4, r5, [r2, #PAGE_TPIDRURW]           @ and PAGE_TPIDRURO
    .else
    ldr r5, [r2, #PAGE_TPIDRURO]
    .endif
    orr r0, r0, #PSR_FMASK
    stmib r2, {{sp, lr}}^
    .if \lent
    mcr p15, 0, r4, c13, c0, 2
    .endif
    str r3, [r2, #PAGE_CONTROL]     @ MODE_USR
    msr spsr_fsxc, r0
    ldr r4, [r2, #PAGE_TARGET]
    ldmdb r2, {{sp, lr}}^
    mcr p15, 0, r5, c13, c0, 3      @ TPIDRURO; no banked register right behind LDM ^ (B9.3.5)
    str r4, [sp, #GOES_ON]
    SWITCH CTX_USER
    SPILL_TO_USER r2
    GO_ON
2:  bcc slow_path                   @ R6 = 0 from here on
    ldr r4, [r2, #PAGE_STALE_CODE]
    str r6, [r2, #PAGE_STALE]
    cmp r4, #0
    beq 5f
    str r6, [r2, #PAGE_STALE_CODE]
    dsb
    mcr p15, 0, r6, c7, c5, 0       @ ICIALLU
5:  mcr p15, 0, r6, c7, c5, 6       @ BPIALL; its DSB and ISB come with the change of tables (B2.2.7)
    .if BY_DOMAINS
    dsb                             @ there is none, and the return is the ISB
    .endif
    b 1b
3:  and r3, r0, #PSR_MODE
    .if \lent
    cmp r3, #MODE_SVC
    beq return_in_place
    .endif
    tst r0, #NOT_USR
    bne return_to_kernel
    ldrd r6, r7, [sp, #CTX_SLOW_PATH]           @ in an IT block, or with bits that are none
    ldrd r4, r5, [r2, #PAGE_STALE]
    and r1, r1, #PSR_MODE
    cmp r3, #MODE_USR
    tsteq r0, #PSR_MASKS
    teqeq r1, #MODE_SVC
    teqeq r5, r7
    teqeq r6, #0
    teqeq r4, #0
    bne slow_path
    str r0, [r2, #BANK_SVC]
    bic r0, r0, #PSR_UNUSED
    tst r0, #PSR_T
    biceq r0, r0, #(PSR_IT & 0xff000000)        @ IT only in Thumb state
    biceq r0, r0, #(PSR_IT & 0xffff)
    b 4b
.endm

    HANDLER fast, "exception returns"
lent_exception_return:
    EXCEPTION_RETURN 1
    HANDLER fast, "exception returns"
exception_return:
    EXCEPTION_RETURN 0

@ TLBIMVA (B4.2.2), with its operand in the vCPU page, where it concerns nothing, or nothing but one small page of the
@ active space: see Shadow::is_watched. A guest goes through whole ranges, so the second-level tables of the last
@ megabyte are kept at hand until Rust runs, which may change them, or the space is another. In: R2, LR = where the
@ block goes on. Uses R0, R1, R3 to R7.
    HANDLER fast, "maintenance of a TLB entry"
forget_page:
    ldr r0, [r2, #PAGE_TARGET]
    ldr r1, [sp, #CTX_FORGET_MEGABYTE]
    bic r3, r0, #0xff000
    cmp r3, r1                      @ megabyte and ASID
    bne find_tables
@ In: R0 = the operand, whose megabyte is at hand. LR = where the block goes on. Uses R1, R3 to R7.
tables_found:
    ldrd r4, r5, [sp, #CTX_FORGET_TABLES]
    ubfx r6, r0, #12, #8
    ldr r1, [r4, r6, lsl #2]!
    ldr r3, [r5, r6, lsl #2]!
    orrs r7, r1, r3
    bne forget_entries
@ In: LR and SPSR for the block. Not counted: a guest goes through thousands of these.
nothing_there:
    GO_ON

@ In: R0 = the page.
in_kernel_range:                    @ where no space has anything that is not watched
    ldr r1, [sp, #CTX_WATCHED_PAGES]
    lsr r3, r0, #17
    ldr r1, [r1, r3, lsl #2]
    lsr r3, r0, #12
    and r3, r3, #31
    lsr r1, r1, r3
    tst r1, #1
    bne slow_path
    str r0, [sp, #CTX_FORGOTTEN]
    b nothing_there

@ The same in a loop over pages, whose rounds are done here for as long as there is nothing, up to the end of the
@ megabyte; then the guest's register is what it is after the last of them, and the guest goes on behind that round's
@ TLBIMVA (trap::tlb_range). Megabytes that are not at hand, and the first page that is there, take the way of a
@ single one. In: R2, LR = behind the SVC, which names the registers. Uses R0, R1, R3 to R7.
    HANDLER fast, "maintenance of a TLB entry"
forget_range:
    ldr r0, [r2, #PAGE_TARGET]
    ldr r7, [lr, #-4]
    cmp r0, #PAGEWISE_FROM
    ubfx r7, r7, #TLB_RANGE_END, #3
    ldr r7, [sp, r7, lsl #2]        @ the end
    bhs range_of_kernel
    ldr r1, [sp, #CTX_FORGET_MEGABYTE]
    bic r3, r0, #0xff000
    orr r6, r0, #0xff000
    add r6, r6, #0x1000             @ or that of the megabyte
    cmp r7, r6
    movhi r7, r6
    cmp r3, r1
    bne find_tables
    ldrd r4, r5, [sp, #CTX_FORGET_TABLES]
    ubfx r6, r0, #12, #8
    add r4, r4, r6, lsl #2
    add r5, r5, r6, lsl #2
1:  ldr r1, [r4], #4
    ldr r3, [r5], #4
    orrs r1, r1, r3
    bne 2f
    add r0, r0, #0x1000
    cmp r0, r7
    blo 1b
2:  ldr r1, [r2, #PAGE_TARGET]
    ldr r7, [lr, #-4]
    cmp r0, r1
    beq forget_page                 @ the first is there
    ubfx r7, r7, #TLB_RANGE_PAGE, #3
    sub r0, r0, #0x1000
    str r0, [sp, #CTX_FORGOTTEN]
    str r0, [sp, r7, lsl #2]
    b nothing_there

@ In: R0 = the first page, R7 = the end. A bit says of each page whether it is watched. The first page always has its
@ turn, and often no other does: Linux maps pages of its text one by one to patch them. Behind that, 32 are looked at
@ together: when a kernel has freed some of its pages, its loop may go over all the megabytes from first to last. In one
@ go, those are 16 MiB at most, 129 words in some 1,200 instructions: the host's interrupts wait meanwhile. To 2 above
@ with R0 = the first page that is watched, or the first behind the end.
range_of_kernel:
    ldr r1, [sp, #CTX_WATCHED_PAGES]
    lsr r3, r0, #17
    ubfx r4, r0, #12, #5
    ldr r3, [r1, r3, lsl #2]
    add r5, r0, #0x1000             @ the next, which may be the first of all
    lsr r3, r3, r4
    tst r3, #1
    bne slow_path
    cmp r5, r7
    cmplo r0, r7
    blo 1f
    str r0, [sp, #CTX_FORGOTTEN]
    b nothing_there
1:  adds r6, r0, #0x01000000
    movcs r6, r7
    cmp r7, r6
    movhi r7, r6
1:  lsr r3, r0, #17
    ubfx r4, r0, #12, #5
    ldr r3, [r1, r3, lsl #2]
    lsrs r3, r3, r4
    bne 3f
    bfc r0, #12, #5
    adds r0, r0, #0x20000
    bcs 4f                          @ the last page of all was in it
    cmp r0, r7
    blo 1b
    b 4f
3:  rbit r3, r3
    clz r3, r3
    add r0, r0, r3, lsl #12
    cmp r0, r7
    blo 2b
4:  sub r0, r0, r7                  @ all have the same low bits, and the end may have others
    ubfx r0, r0, #0, #12
    add r0, r7, r0
    b 2b

.macro FORGET view, entry, address
    cmp \entry, #0
    beq 2f
    mov r7, #0
    str r7, [\address]
    mcr p15, 0, \address, c7, c11, 1    @ DCCMVAU: table walks need not look into the data cache (B3.10.1)
    dsb
    ldr r7, [sp, #\view + VIEW_CONTEXTIDR]      @ the host's ASID
    bfi r0, r7, #0, #12
    mcr p15, 0, r0, c8, c7, 1       @ TLBIMVA
    dsb                             @ the exception return is the ISB (B3.10.1): the guest's pages are not used before
2:
.endm

@ In: R0 = the operand, R2, R1 and R3 = the entries of the views, R4 and R5 = where they are. Uses R7.
forget_entries:
    FORGET CTX_KERNEL, r1, r4
    FORGET CTX_USER, r3, r5
    ldr r7, =NO_PAGE
    COUNT CTX_TLB_PAGES
    str r7, [sp, #CTX_LINE_PAGE]
    str r7, [r2, #PAGE_UNPRIVILEGED_READ]
    str r7, [r2, #PAGE_UNPRIVILEGED_WRITE]
    b nothing_there

@ The second-level table that one of the views has for megabyte R5, or one without entries. From R7, the offset of
@ tables. Uses R1.
.macro FIND_TABLE view, table
    ldr r1, [sp, #\view + VIEW_TTBR0]
    bfc r1, #0, #14
    add r1, r1, r7
    ldr \table, [r1, r5, lsl #2]    @ the first-level entry
    ands r1, \table, #3
    ldreq \table, =no_entries
    beq 2f
    cmp r1, #1                      @ a table
    bne slow_path
    bfc \table, #0, #10
    add \table, \table, r7
2:
.endm

@ In: R0 = the operand, R2, R3 = its megabyte and ASID. To tables_found with R0 and R2 kept.
find_tables:
    cmp r0, #PAGEWISE_FROM
    bhs in_kernel_range
    ldr r1, [sp, #CTX_TLB_ASID]
    ldr r4, [sp, #CTX_WATCHED]
    uxtb r6, r0
    lsr r5, r0, #25
    cmp r6, r1
    bne slow_path
    ldr r4, [r4, r5, lsl #2]
    lsr r5, r0, #20
    and r6, r5, #31
    lsr r4, r4, r6
    tst r4, #1
    bne slow_path
    ldr r7, [sp, #CTX_TABLE_OFFSET]
    FIND_TABLE CTX_KERNEL, r4
    .if BY_DOMAINS
    ldr r6, =no_entries             @ there is one table
    .else
    FIND_TABLE CTX_USER, r6
    .endif
    mov r5, r6
    strd r4, r5, [sp, #CTX_FORGET_TABLES]
    str r3, [sp, #CTX_FORGET_MEGABYTE]
    b tables_found

.section .bss.no_entries, "aw", %nobits
.balign 4
@ A second-level table without entries, read only.
no_entries:
    .space 1024
.section .text.world, "ax"

@ An unprivileged access (B9.3.7): if the user view maps the address, for a store writable, then the privileged access
@ that follows is allowed as well. The domain is checked by that. A kernel that reads a string, or mends an access that
@ is not aligned, makes several to one page, so the last page that was found is at \known: the user view of the space in
@ force has it, for stores writable. It is forgotten when Rust runs, which may change tables, when the space is another,
@ and when an entry is removed in assembly. Translated code looks there itself for bytes. In: R2, LR = the access. Uses
@ R0, R1, R3, R5 to R7.
.macro UNPRIVILEGED known, section_bit, page_bit
    ldr r0, [r2, #PAGE_TARGET]
    ldr r1, [r2, #\known]
    eor r3, r0, r1                  @ the offset, if it is that page
    cmp r3, #0xff0                  @ not across its end
    cmpls r0, #REGION_MIN           @ nor what stands for none
    bhi 1f
    GO_ON
1:  ubfx r3, r0, #0, #12
    ldr r7, [sp, #CTX_TABLE_OFFSET]
    ldr r1, [sp, #CTX_USER + VIEW_TTBR0]
    lsr r5, r0, #20
    cmp r3, #0xff0                  @ not across the end of the page
    cmpls r0, #REGION_MIN           @ nor where the tables are not the guest's
    bhi slow_path
    bfc r1, #0, #14
    add r1, r1, r7
    ldr r1, [r1, r5, lsl #2]
    .if BY_DOMAINS
    tst r1, #DOMAIN_PRIVILEGED_ALONE            @ not for User mode: Separation::domain
    bne slow_path
    .endif
    tst r1, #1                      @ a table
    beq 3f
    bfc r1, #0, #10
    ubfx r6, r0, #12, #8
    add r1, r1, r7
    ldr r1, [r1, r6, lsl #2]
    tst r1, #2
    .if \page_bit
    tstne r1, #\page_bit
    .endif
    beq slow_path
2:  sub r0, r0, r3
    str r0, [r2, #\known]
    GO_ON
3:  tst r1, #2                      @ a section
    tstne r1, #\section_bit
    bne 2b
    b slow_path
.endm

@ LDRT, STRT and the like, of the address in the vCPU page: as UNPRIVILEGED.
    HANDLER fast, "unprivileged accesses"
unprivileged_load:
    UNPRIVILEGED PAGE_UNPRIVILEGED_READ, 2, 0
    HANDLER fast, "unprivileged accesses"
unprivileged_store:
    UNPRIVILEGED PAGE_UNPRIVILEGED_WRITE, SHADOW_SECTION_WRITABLE, SHADOW_PAGE_WRITABLE

@ DCCMVAU, DCCMVAC or DCCIMVAC (B4.2.1), with its operand in the vCPU page, where the kernel view maps it: then there is
@ the guest's RAM, and the real DCCMVAU cleans it. The guest's CTR announces lines as short as real ones: see
@ announced_line. The operation itself heeds neither domains nor permissions; the question whether the page is mapped
@ (ATS1CPR, B4.2.4) heeds domains: so it is asked again with all of them open, to nobody but us. The last page that was
@ found is kept, as those of unprivileged accesses are. Or it is ICIMVAU: user code runs from the real instruction
@ cache, at the same addresses. The guest's own DSB completes either. In: R2, LR = where the block goes on. Uses R0, R1,
@ R6.
.macro LINE crm
    ldr r0, [r2, #PAGE_TARGET]
    ldr r6, [sp, #CTX_LINE_PAGE]
    cmp r6, r0, lsr #12
    blne find_line
    mcr p15, 0, r0, c7, \crm, 1
    GO_ON
.endm

@ The same in a loop that goes on up to \register: all rounds in the same page are done here, by \more. Uses R0, R1, R3
@ to R7. With \at, that register has the address already: R12.
.equ LINES_BYTES, 11 * 4
.equ LINES_AT_R12_BYTES, 10 * 4
.macro LINES crm, register, more, at=r0, find=find_line
    .ifc \at, r0
    ldr r0, [r2, #PAGE_TARGET]
    .endif
    ldr r6, [sp, #CTX_LINE_PAGE]
    ldr r4, [sp, #CTX_LINE]
    cmp r6, \at, lsr #12
    blne \find
    mcr p15, 0, \at, c7, \crm, 1
    ldr r1, [sp, #4 * (\register)]  @ the end
    add r7, \at, r4
    cmp r7, r1
    blo \more                       @ there is another round
    GO_ON
.endm

@ Where R12 has the address, and the second line is the last one: what LINE_LOOP does, of which so much is not to be
@ asked. Else that follows. In: R1 = the end, R4 = a line's bytes, R7 = the second line, in front of the end, LR.
.macro SECOND_LINE crm
    add r0, r7, r4
    ldr r3, [lr, #-4]               @ the SVC
    cmp r0, r1
    blo 1f
    ubfx r6, r3, #LINE_LOOP_STEP, #3
    eor r0, r7, r12
    ldr r6, [sp, r6, lsl #2]        @ the step
    sub r6, r6, r4
    orrs r6, r6, r0, lsr #12
    bne 1f                          @ any other step, or another page
    mcr p15, 0, r7, c7, \crm, 1
    mov r12, r7
    GO_ON
1:  mov r0, r12
.endm

@ The loop that trap::LineLoop tells of, up to its end or that of the page, where the step is the line that the guest's
@ CTR announces; then the guest's register has the address of the last line that was done, and the guest goes on behind
@ that round's operation. In: R0 = the first line, which is done, R1 = the end, R4 = a line's bytes, LR.
.macro LINE_LOOP crm
    ldr r3, [lr, #-4]               @ the SVC
    ubfx r6, r3, #LINE_LOOP_STEP, #3
    orr r5, r0, #0xff0
    ldr r6, [sp, r6, lsl #2]        @ the step
    orr r5, r5, #0xf
    cmp r6, r4
    bne 4f                          @ any other step: a single round
    cmp r1, r5
    addhi r1, r5, #1                @ or that of the page, which is never the last
    sub r5, r4, #1
    sub r6, r1, #1
    sub r6, r6, r0
    bics r6, r6, r5                 @ bytes from the first line to the last one
    beq 4f                          @ the next one is in another page
    add r7, r0, r6                  @ the last round's address
    ubfx r1, r3, #LINE_LOOP_AT, #4
    cmp r1, #12
    moveq r12, r7
    cmp r1, #8
    strlo r7, [sp, r1, lsl #2]
1:  subs r6, r6, r4, lsl #3
    blo 2f
    .rept 8
    add r0, r0, r4
    mcr p15, 0, r0, c7, \crm, 1
    .endr
    b 1b
2:  adds r6, r6, r4, lsl #3
    beq 4f
3:  add r0, r0, r4
    mcr p15, 0, r0, c7, \crm, 1
    subs r6, r6, r4
    bne 3b
4:  GO_ON
.endm

    HANDLER fast, "maintenance of cache lines"
clean_line:
    LINE c11                        @ DCCMVAU
    HANDLER fast, "maintenance of cache lines"
clean_lines:
    .set number, 0
    .rept 8
    LINES c11, number, clean_more
    .set number, number + 1
    .endr
    HANDLER fast, "maintenance of cache lines"
forget_line:
    LINE c5                         @ ICIMVAU
    HANDLER fast, "maintenance of cache lines"
forget_lines:
    .set number, 0
    .rept 8
    LINES c5, number, forget_more
    .set number, number + 1
    .endr
    .if . - forget_lines != 8 * LINES_BYTES
    .error "these are not as long as the dispatch has it"
    .endif
    HANDLER fast, "maintenance of cache lines"
clean_lines_at_r12:
    .set number, 0
    .rept 8
    LINES c11, number, clean_more_at_r12, r12, find_line_at_r12
    .set number, number + 1
    .endr
    HANDLER fast, "maintenance of cache lines"
forget_lines_at_r12:
    .set number, 0
    .rept 8
    LINES c5, number, forget_more_at_r12, r12, find_line_at_r12
    .set number, number + 1
    .endr
    .if . - forget_lines_at_r12 != 8 * LINES_AT_R12_BYTES
    .error "these are not as long as the dispatch has it"
    .endif
    PART fast, "maintenance of cache lines"
clean_more_at_r12:
    SECOND_LINE c11
clean_more:
    LINE_LOOP c11
forget_more_at_r12:
    SECOND_LINE c5
forget_more:
    LINE_LOOP c5

@ In: R0 = the address, or R12, LR = where to come back to; the trap's is at GOES_ON. Out: the kernel has that mapped,
@ and LR is the trap's; or slow_path. Uses R0, R1, R6.
    PART fast, "maintenance of cache lines"
find_line_at_r12:
    mov r0, r12
find_line:
    cmp r0, #REGION_MIN
    bhs 3f                          @ what is mapped there is not the guest's
    mcr p15, 0, r0, c7, c8, 0       @ ATS1CPR
    isb
    mrc p15, 0, r6, c7, c4, 0       @ PAR
    tst r6, #1
    bne 2f
1:  lsr r6, r0, #12
    mov r1, lr
    str r6, [sp, #CTX_LINE_PAGE]
    ldr lr, [sp, #GOES_ON]
    bx r1
2:  ldr r1, =(DACR_CLIENTS | DACR_ALWAYS)
    mcr p15, 0, r1, c3, c0, 0
    isb
    mcr p15, 0, r0, c7, c8, 0
    isb
    ldr r1, [sp, #CTX_KERNEL + VIEW_DACR]
    mrc p15, 0, r6, c7, c4, 0
    mcr p15, 0, r1, c3, c0, 0
    isb
    tst r6, #1
    beq 1b
3:  ldr lr, [sp, #GOES_ON]
    b slow_path

@ As lent_exception_return, where Supervisor mode is likely. In: R2. Uses R0, R1, R3 to R7.
    HANDLER fast, "exception returns"
lent_vector_return:
    WORDS PAGE_SPSR, PAGE_CONTROL
    ldrd r0, r1, [r2, #PAGE_SPSR]
    and r3, r0, #PSR_MODE
    cmp r3, #MODE_SVC
    bne lent_exception_return
@ To Supervisor mode, of a kernel that runs in place: whether that is so at the target need not be asked. If it is not,
@ nothing can be executed there, and Rust finds the block (in_place::fetch), and says so if that comes back. In: as
@ return_to_kernel.
return_in_place:
    WORDS CTX_BLOCKS_BESIDE, CTX_SLOW_PATH
    WORDS PAGE_SPSR, PAGE_CONTROL
    and r1, r1, #PSR_MODE
    adr r5, bank_of_mode
    ldrb r4, [r5, r1]
    ldrd r6, r7, [sp, #CTX_BLOCKS_BESIDE]       @ and CTX_SLOW_PATH
    ldr r3, [r2, #PAGE_TARGET]
    tst r0, #PSR_ET
    teqeq r6, #0
    teqeq r7, #0
    tsteq r4, #BANK_NOT_HERE
    tsteq r3, #3
    bne return_to_kernel
    add r1, r2, r4                  @ behind the bank
    stmdb r1, {{sp, lr}}^
    str r0, [r1, #-BANKED_BYTES]
    ldr r4, [r2, #BANK_SVC]
    ldmib r2, {{sp, lr}}^
    ubfx r5, r0, #0, #9             @ as below
    bic r0, r0, #(PSR_UNUSED | PSR_J_IT)
    strd r4, r5, [r2, #PAGE_SPSR]   @ and PAGE_CONTROL
    msr spsr_fs, r0
    str r3, [sp, #GOES_ON]
    .if CHECKED
    COUNT CTX_KERNEL_RETURNS
    .endif
    GO_ON

@ In: R0 = SPSR, the new CPSR, R1 = PAGE_CONTROL, R2. Out: the target's block, in that mode. Uses R0, R1, R3 to R7.
return_to_kernel:
    and r1, r1, #PSR_MODE
    adr r5, bank_of_mode
    and r3, r0, #PSR_MODE
    ldrb r4, [r5, r1]
    ldrb r6, [r5, r3]
    ldr r3, [r2, #PAGE_TARGET]
    ldr r5, [sp, #CTX_JUMP_CACHE]
    ubfx r1, r3, #2, #JUMP_BITS
    add r5, r5, r1, lsl #JUMP_ENTRY_BITS
    ldr r7, [sp, #CTX_SLOW_PATH]
    ldm r5, {{r1, r5}}              @ JUMP_GUEST, JUMP_HOST
    cmp r1, r3
    tsteq r0, #PSR_ET
    teqeq r7, #0
    orr r1, r4, r6
    tsteq r1, #BANK_NOT_HERE        @ a mode that is none, or FIQ
    bne return_otherwise
1:  add r1, r2, r4                  @ behind the bank
    stmdb r1, {{sp, lr}}^
    str r0, [r1, #-BANKED_BYTES]
2:  add r1, r2, r6
    ldr r3, [r1, #-BANKED_BYTES]
    ldmdb r1, {{sp, lr}}^
    str r3, [r2, #PAGE_SPSR]        @ the SPSR of the mode that is left has been put away: right also if it is the same
    ubfx r1, r0, #0, #9             @ A, I, F and the mode; T is 0
    bic r0, r0, #(PSR_UNUSED | PSR_J_IT)
    str r1, [r2, #PAGE_CONTROL]
    msr spsr_fs, r0                 @ the rest stays: User mode, A32 state
    str r5, [sp, #GOES_ON]
    .if CHECKED
    COUNT CTX_KERNEL_RETURNS
    .endif
    GO_ON

@ The same where an interrupt waits until it is not masked any more; to Thumb state outside of an IT block, where the
@ jump cache has the target with bit 0 set; or not at all. In: R0, R2, R3 = the target, R4, R6 = the banks, R7 =
@ CTX_SLOW_PATH.
return_otherwise:
    cmp r7, #0
    beq 3f
    cmp r7, #IRQ_WAITS
    bne slow_path
    tst r0, #PSR_IMASK
    beq slow_path
3:  and r1, r0, #PSR_ET
    cmp r1, #0
    beq 4f
    orr r3, r3, #1
    cmp r1, #PSR_T
    tsteq r0, #(PSR_IT & 0xff000000)
    tsteq r0, #(PSR_IT & 0xffff)
    bne slow_path
4:  ldr r7, [sp, #CTX_JUMP_CACHE]
    ubfx r5, r3, #2, #JUMP_BITS
    add r7, r7, r5, lsl #JUMP_ENTRY_BITS
    ldm r7, {{r5, r7}}
    orr r1, r4, r6
    cmp r5, r3
    tsteq r1, #BANK_NOT_HERE
    bne slow_path
    mov r5, r7
    tst r0, #PSR_T
    beq 1b
    add r1, r2, r4
    stmdb r1, {{sp, lr}}^
    str r0, [r1, #-BANKED_BYTES]
    bic r0, r0, #PSR_T
    b 2b

.ltorg
@ By a mode: the bytes up to its bank from that of User mode, or BANK_NOT_HERE. A byte for each.
bank_of_mode:
    .fill 16, 1, BANK_NOT_HERE
    .word BANKS_0, BANKS_4, BANKS_8, BANKS_12
.balign 4
