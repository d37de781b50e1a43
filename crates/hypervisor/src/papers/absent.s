@ Registers are spilled to the vCPU page, which needs nothing here: see spill.s, which stands here with the feature
@ papers.
.set kernel_undefined_vector, answer_kernel_undefined

.macro SPILL_TO_KERNEL page
.endm
.macro SPILL_TO_USER page
.endm
