@ `exceptions.S` with exceptions taken in Thumb state.

    .equ THUMB_VECTORS, 1
    .include "exceptions.S"
