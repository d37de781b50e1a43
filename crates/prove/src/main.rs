//! `spica prove`: its arguments. The `spica` command builds this program with optimisations, and hands its arguments
//! over.

use clap::Parser;
use spica_cli::terminal::StandardError;
use spica_prove::part::Part;
use spica_prove::run::{self, Plan};
use spica_prove::work::Limit;
use spica_runner::progress;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Look for mistakes of Spica's with random and exhaustive cases, against independent oracles
#[derive(Parser)]
#[command(
    name = "spica prove",
    after_help = "\
Each part is run for its share of the time. A case that fails is made smaller and printed with the command that repeats it;
then the exit status is 1. Exhaustive parts go on where the last run ended (build/prove). docs/proving.md says more.

Examples:
  spica prove --list
  spica prove --for 1h                   everything, for an hour
  spica prove --part translator --for 10m --seed 7
  spica prove --part decoder --case 0xe1a0f00e"
)]
struct Args {
    /// Only this part; can be given several times. A name that ends in - stands for all that begin so
    #[arg(long = "part", value_name = "NAME")]
    parts: Vec<String>,
    /// For how long, all parts together: 90s, 10m, 2h
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = time)]
    time: Duration,
    /// For each part, so many cases, however long they take
    #[arg(long, value_name = "N", conflicts_with = "time")]
    cases: Option<u64>,
    /// Where random numbers begin [default: the time of day]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..1 << 32))]
    seed: Option<u64>,
    /// Repeat one case of the part
    #[arg(long, value_name = "CASE", requires = "parts")]
    case: Option<String>,
    /// Threads for parts that can use several [default: one per processor]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Only the parts that need no emulated board
    #[arg(long)]
    no_board: bool,
    /// Show what was covered how often
    #[arg(long)]
    coverage: bool,
    /// Say what parts there are
    #[arg(long)]
    list: bool,
}

/// A time as people write it.
fn time(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let scale = match unit {
        "s" | "" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err("a number with s, m or h behind it is wanted".into()),
    };
    let number: u64 = number.parse().map_err(|_| "a number is wanted".to_string())?;
    number.checked_mul(scale).map(Duration::from_secs).ok_or_else(|| "too long".into())
}

/// The parts of these names.
fn select(names: &[String], no_board: bool) -> Result<Vec<Box<dyn Part>>, String> {
    let fits =
        |part: &dyn Part, name: &str| part.name() == name || name.ends_with('-') && part.name().starts_with(name);
    for name in names {
        if !spica_prove::parts().iter().any(|part| fits(part.as_ref(), name)) {
            return Err(format!("there is no part {name}; see spica prove --list"));
        }
    }
    let wanted = |part: &dyn Part| {
        (names.is_empty() || names.iter().any(|name| fits(part, name))) && !(no_board && part.on_board())
    };
    Ok(spica_prove::parts().into_iter().filter(|part| wanted(part.as_ref())).collect())
}

fn main() -> ExitCode {
    let args = Args::parse();
    progress::listen(StandardError);
    let parts = match select(&args.parts, args.no_board) {
        Ok(parts) => parts,
        Err(error) => {
            eprintln!("spica prove: {error}");
            return ExitCode::from(2);
        }
    };
    if args.list {
        for part in parts {
            println!("{:<20} {}{}", part.name(), part.about(), if part.on_board() { " (on the board)" } else { "" });
        }
        return ExitCode::SUCCESS;
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let root = std::env::var_os("SPICA_HOME").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let plan = Plan {
        limit: args.cases.map_or(Limit::Time(args.time), Limit::Cases),
        seed: args.seed.unwrap_or(now.as_secs()),
        jobs: args.jobs.or_else(|| std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1),
        state: root.join("build/prove"),
    };
    if let Some(case) = &args.case {
        let outcome = run::case(parts[0].as_ref(), case, &plan);
        print!("{}", outcome.report());
        return ExitCode::from(u8::from(outcome.failure.is_some()));
    }
    println!("prove: seed {}", plan.seed);
    let good = run::all(&parts, &plan, |outcome| {
        if args.coverage {
            print!("{}", outcome.coverage());
        }
        print!("{}", outcome.report());
    });
    ExitCode::from(u8::from(!good))
}
