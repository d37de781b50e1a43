//! How late a guest is woken that sleeps, at worst, beside each attack.
//!
//! The attacker and the sleeper (`pulse.S`) run until the sleeper has spoken so often that the attack is over, or has
//! shown what it does. Nothing is typed, so the figures repeat to the digit. A board that Spica halts, or that goes
//! on for too long without a word, has no figure.

use spica_bench::results::{Finding, Group};

use super::boots::Boots;
use crate::attacks::{ATTACKS, Attack, FLOODS, SIEGES};
use crate::bare::{self, PULSE, Part};
use crate::bench::plan::{Item, Job};
use crate::bench::watch::Flow;
use crate::bench::{Context, Said, instructions, request};
use crate::error::{Error, Result};
use crate::guests::Source;
use crate::project::{create_dir, write};

/// What is aimed at, in nanoseconds.
const GOAL: f64 = 1e6;
/// So often the sleeper speaks, a quarter of a second apart.
const TIMES: usize = 8;
/// An attack without which there would be nothing to compare with.
const NOTHING: Attack = Attack::COMPUTING;

fn attacks() -> impl Iterator<Item = &'static Attack> {
    let attacks = ATTACKS.iter().flat_map(|(_, attacks)| attacks.iter());
    [&NOTHING].into_iter().chain(attacks).chain(SIEGES.iter().map(|(attack, ..)| attack)).chain(FLOODS)
}

/// The attack's name in one word.
fn name(attack: &Attack) -> String {
    let words = attack.name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

/// The workloads.
#[must_use]
pub fn items() -> Vec<Item> {
    let item = |attack| Item {
        group: Group::Latency,
        name: name(attack),
        unit: "instructions from due to delivery, at worst".into(),
        source: "a guest that sleeps, one that attacks".into(),
        quick: false,
    };
    attacks().map(item).collect()
}

/// Boots a board for each of the job's items. What is found goes to `said`.
///
/// # Errors
/// If the console's file cannot be made.
pub fn run(context: &Context<'_>, job: &Job, said: &mut Said<'_>) -> Result<()> {
    super::each(context, job, said, |wanted, boots| {
        let attack = attacks().find(|attack| name(attack) == wanted).expect("an attack of this group");
        late(boots, wanted, attack)
    })
}

fn late(boots: &mut Boots<'_, '_>, name: &str, attack: &Attack) -> Result<Finding> {
    let scratch = boots.scratch.join(name);
    create_dir(&scratch)?;
    let parameters = attack.parameters(0);
    let mut parts = [attack.part("attack", &parameters), Part::new("pulse", "pulse", &PULSE)];
    if parts[0].keys.contains("networks") {
        // Networks are for everybody.
        parts[1] = parts[1].clone().with("networks", "[\"lan\"]");
    }
    if parts[0].keys.contains(bare::BLANK) {
        write(&scratch.join(bare::BLANK), &vec![0; 1 << 20])?;
    }
    let mut request = request(boots.job.board, boots.job.side, Group::Latency);
    request.guests = Some(Source::Manifest(bare::manifest(&scratch, boots.context.project, &parts)?));
    request.append = String::new();
    request.memory = None;
    let mut woken = Vec::new();
    boots.watch(&request, name, &mut |line| {
        woken.extend(line.strip_prefix("pulse| ").and_then(bare::woken));
        if woken.len() >= TIMES { Flow::Enough } else { Flow::Continue }
    })?;
    let microseconds = woken.last().ok_or_else(|| Error::failed("the guest that sleeps was never woken"))?;
    let mut finding = Finding { goal: Some(instructions(GOAL)), ..Finding::new(instructions(1000.0 * microseconds)) };
    finding.parts.insert("µs".into(), *microseconds);
    Ok(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_attack_is_a_workload_of_one_word() {
        let names: BTreeSet<String> = attacks().map(name).collect();
        assert_eq!(names.len(), attacks().count());
        assert!(names.iter().all(|name| !name.contains(' ') && !name.is_empty()), "{names:?}");
    }
}
