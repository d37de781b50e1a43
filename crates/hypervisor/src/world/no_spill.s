@ Registers are spilled to the vCPU page, which needs nothing here: see spill.s.
.set kernel_undefined_vector, answer_kernel_undefined

.macro SPILL_TO_KERNEL page
.endm
.macro SPILL_TO_USER page
.endm
