//! What the probes do, interpreted here instruction by instruction, and what the model of time makes of it.

mod doing;
mod machine;
mod time;
