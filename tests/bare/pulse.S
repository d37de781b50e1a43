@ Sleeps, again and again, and looks at how late it is woken. It goes on for ever. Parameters: ticks of the counter for
@ which it sleeps; after how many times it says how late it was woken at worst, since its start and since it last said
@ so.

    .include "runtime.inc"
    .include "clock.inc"

    .global main
main:
    say "up\n"
    bl timer_interrupt_on
    mov r7, #0                      @ the worst of all
1:  get r8, parameters + 4          @ times until it says so
    mov r9, #0                      @ the worst of these
2:  now r4, r0
    get r0, parameters
    add r4, r4, r0
    mov r0, r4
    bl timer_at
3:  wfi
    now r5, r0
    subs r5, r5, r4
    bmi 3b                          @ something else has ended the WFI (B1.8.13)
    cmp r5, r9
    movhi r9, r5
    subs r8, r8, #1
    bne 2b
    bl timer_off
    cmp r9, r7
    movhi r7, r9
    say "woken"
    show late, r9
    show worst, r7
    say "\n"
    b 1b
    .ltorg
