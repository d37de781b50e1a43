@ Vectors whose every trap comes to Rust: what the handlers in assembly are compared with (feature
@ check-fast-paths, vm/check). In: LR and SPSR as the exception left them.

.section .vectors, "ax"
.arm
.balign 32
.global world_kernel_vectors_to_rust
world_kernel_vectors_to_rust:
    b world_own_fault
    b kernel_undefined
    b kernel_call
    b kernel_prefetch_abort
    b kernel_data_abort
    b world_own_fault
    b kernel_irq
    b kernel_fiq

.balign 32
.global world_user_vectors_to_rust
world_user_vectors_to_rust:
    b world_own_fault
    b user_undefined
    b user_call
    b user_prefetch_abort
    b user_data_abort
    b world_own_fault
    b user_irq
    b user_fiq
