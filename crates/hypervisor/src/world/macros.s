@ What all files here use.

@ Words that one LDM, LDRD or a row of loads takes: each is behind the one before it.
.macro WORDS first, second, more:vararg
    .if (\second) - (\first) != 4
    .error "these are not behind each other: \first, \second"
    .endif
    .ifnb \more
    WORDS \second, \more
    .endif
.endm
