//! Assembly, and what it knows of Rust: constants and functions, by their names there.

/// Assembles files, behind `parts.s` and a definition for each name:
///
/// ```text
/// assemble! {
///     files: [include_str!("switch.s")];
///     functions: [world_panic];
///     CPU_PC = offset_of!(Vcpu, pc);
/// }
/// ```
///
/// The files are templates: `{world_panic}` is a function, and other braces are doubled.
macro_rules! assemble {
    (
        files: [$($file:expr),* $(,)?];
        functions: [$($function:ident),*];
        $($name:ident = $value:expr;)*
    ) => {
        core::arch::global_asm!(
            $(concat!(".equ ", stringify!($name), ", {", stringify!($name), "}"),)*
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/parts.s")),
            $($file,)*
            $($function = sym $function,)*
            $($name = const $value,)*
        );
    };
}

pub(crate) use assemble;
