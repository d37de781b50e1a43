//! A slot's state, to be kept and put back ([`spica_devices::state`] has the same for other devices).
//!
//! What is kept is what the driver has set up, and how far the queues are. What was taken from a queue and not begun is
//! taken anew later; what has begun is not kept: it is to be finished first ([`Slot::unkept`]). What stands behind a
//! device is its host's, and is not in here.

use serde::{Deserialize, Serialize};
use spica_devices::Unsound;
use spica_devices::state::{Writer, take};

use super::{CONFIG_CHANGED, Slot, USED_BUFFER, status};
use crate::device::Model;
use crate::features;
use crate::queue::Kept as KeptQueue;

/// Why a device's state cannot be kept now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unkept {
    /// It is in the midst of something, and has to be served.
    Busy,
    /// It is a balloon that has pages: they are somebody else's now.
    HasPages,
}

/// What is kept beside the queues.
#[derive(Serialize, Deserialize)]
struct Kept {
    id: u32,
    status: u32,
    accepted: u64,
    device_half: u32,
    driver_half: u32,
    selected: u32,
    interrupt: u32,
    edge: bool,
    generation: u32,
    /// Of a balloon: how many pages the host would like, and how many the driver says that it has.
    balloon: [u32; 2],
}

impl Slot {
    /// Why its device's state cannot be kept now, if that is so.
    #[must_use]
    pub fn unkept(&self) -> Option<Unkept> {
        let plugged = self.plugged.as_ref()?;
        if matches!(&plugged.model, Model::Balloon(balloon) if balloon.count() != 0) {
            return Some(Unkept::HasPages);
        }
        let quiet = plugged.model.device().is_quiet() && plugged.queues.iter().all(|queue| queue.is_quiet());
        // What it was doing does not matter where only a reset helps; but a balloon has to give pages back.
        let dead = !plugged.is_live() && !matches!(plugged.model, Model::Balloon(_));
        (plugged.attention || !quiet && !dead).then_some(Unkept::Busy)
    }

    /// Writes down its device's state behind what is in `into`. Of an empty slot, there is none.
    pub fn keep(&self, into: &mut Writer) {
        let Some(plugged) = &self.plugged else { return };
        let balloon = if let Model::Balloon(balloon) = &plugged.model { balloon.kept() } else { [0; 2] };
        let kept = Kept {
            id: plugged.model.device().id(),
            status: plugged.status,
            accepted: plugged.accepted,
            device_half: plugged.device_half,
            driver_half: plugged.driver_half,
            selected: plugged.selected,
            interrupt: plugged.interrupt,
            edge: plugged.edge,
            generation: plugged.generation,
            balloon,
        };
        into.append(&kept);
        plugged.queues.iter().for_each(|queue| into.append(&queue.kept()));
    }

    /// Puts a state that was written down into its device, which is new, and takes it off the beginning of `rest`. The
    /// device then looks for work by itself.
    ///
    /// # Errors
    /// If it is none of this device's, or none that a driver could have made. Nothing is to be done with the slot then.
    pub fn restore(&mut self, rest: &mut &[u8]) -> Result<(), Unsound> {
        let Some(plugged) = &mut self.plugged else { return Ok(()) };
        let kept: Kept = take(rest)?;
        if kept.id != plugged.model.device().id() {
            return Err(Unsound("a virtio device of another kind than this guest's"));
        }
        let is = |bits: u32| kept.status & bits == bits;
        let acceptable = kept.accepted & !plugged.offered() == 0 && kept.accepted & features::VERSION_1 != 0;
        let sound = kept.status & !(status::DRIVERS | status::NEEDS_RESET) == 0
            && (!is(status::FEATURES_OK) || acceptable)
            && (!is(status::DRIVER_OK) || is(status::FEATURES_OK))
            && kept.interrupt & !(USED_BUFFER | CONFIG_CHANGED) == 0
            && (!kept.edge || kept.interrupt != 0);
        if !sound {
            return Err(Unsound("a virtio device that no driver can have made so"));
        }
        if is(status::FEATURES_OK) {
            plugged.model.device_mut().negotiate(kept.accepted);
        }
        for queue in &mut plugged.queues {
            if is(status::FEATURES_OK) {
                queue.negotiate(kept.accepted);
            }
            let kept: KeptQueue = take(rest)?;
            queue.restore(&kept).map_err(|_| Unsound("a virtio queue that no driver can have made so"))?;
        }
        if let Model::Balloon(balloon) = &mut plugged.model {
            balloon.restore(kept.balloon);
        }
        plugged.status = kept.status;
        plugged.accepted = kept.accepted;
        (plugged.device_half, plugged.driver_half) = (kept.device_half, kept.driver_half);
        plugged.selected = kept.selected;
        (plugged.interrupt, plugged.edge) = (kept.interrupt, kept.edge);
        plugged.generation = kept.generation;
        plugged.attention = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::Plug;
    use crate::testing::{Buffer, Rig};

    const DISK: Plug = Plug::Block { disk: 0, sectors: 64, read_only: false, serial: [0; 20] };
    const PLUGS: [Plug; 5] = [
        DISK,
        Plug::Net { port: 0, mac: [2, 0, 0, 0, 0, 1] },
        Plug::Console { terminal: 0 },
        Plug::Rng,
        Plug::Balloon { pages: 64, base: spica_addr::GuestPa(0x4000_0000) },
    ];

    fn kept(slot: &Slot) -> Vec<u8> {
        let mut kept = Writer::default();
        slot.keep(&mut kept);
        kept.finish().unwrap()
    }

    /// The same driver, memory and ends with a device that was put back.
    fn put_back(rig: &mut Rig, plug: &Plug) {
        assert_eq!(rig.slot.unkept(), None, "{plug:?}");
        let before = kept(&rig.slot);
        let mut slot = Slot::new(plug);
        let rest = &mut &before[..];
        slot.restore(rest).unwrap();
        assert!(rest.is_empty() && kept(&slot) == before, "{plug:?}");
        rig.slot = slot;
        rig.serve();
    }

    #[test]
    fn a_driver_does_not_notice() {
        for plug in &PLUGS[1..] {
            let mut rig = Rig::new(plug);
            rig.ends.output_room = 1 << 20;
            rig.ends.entropy.extend([7; 1 << 14]);
            rig.serve();
            put_back(&mut rig, plug);
            let queue = if matches!(plug, Plug::Rng) { 0 } else { 1 };
            for round in 0..40 {
                let writable = matches!(plug, Plug::Rng);
                let buffer = if writable { Buffer::Write(0x4001_0000, 64) } else { Buffer::Read(0x4001_0000, 64) };
                let head = rig.request(queue, &[buffer]);
                // It is about half done: the driver has not looked yet.
                put_back(&mut rig, plug);
                assert_eq!(rig.used(queue).map(|(used, _)| used), Some(head), "{plug:?} {round}");
                assert_eq!(rig.used(queue), None, "{plug:?} {round}");
                put_back(&mut rig, plug);
            }
        }
    }

    /// A buffer for input waits in the device; it is filled once, behind the change as before.
    #[test]
    fn a_buffer_that_waits_is_taken_anew() {
        let plug = &Plug::Console { terminal: 0 };
        let mut rig = Rig::new(plug);
        let head = rig.request(0, &[Buffer::Write(0x4001_0000, 64)]);
        assert_eq!(rig.used(0), None);
        put_back(&mut rig, plug);
        assert_eq!(rig.used(0), None);
        rig.ends.input.extend(b"typed");
        rig.poke();
        assert_eq!(rig.used(0), Some((head, 5)));
        assert_eq!(rig.ram.get(0x4001_0000, 5), b"typed");
        assert_eq!(rig.used(0), None);
    }

    #[test]
    fn what_is_in_the_midst_of_something_is_not_kept() {
        let mut rig = Rig::new(&Plug::Console { terminal: 0 });
        rig.ends.output_room = 3;
        rig.request(1, &[Buffer::Read(0x4001_0000, 64)]);
        assert_eq!(rig.slot.unkept(), Some(Unkept::Busy));
        rig.ends.output_room = 1000;
        rig.poke();
        assert_eq!(rig.slot.unkept(), None);
        rig.slot.poke();
        assert_eq!(rig.slot.unkept(), Some(Unkept::Busy));
        assert_eq!(Slot::default().unkept(), None);
    }

    /// A disk with a request under way is waited for; behind it, the driver goes on as before.
    #[test]
    fn a_request_to_a_disk_is_finished_first() {
        let mut rig = Rig::new(&DISK);
        rig.ends.disk_error = Some(crate::backend::DiskError::Later);
        rig.ram.set(0x4001_0000, &[1u32.to_le_bytes(), [0; 4], 3u32.to_le_bytes(), [0; 4]].concat());
        rig.ram.set(0x4001_0100, &[7; 512]);
        rig.ram.set(0x4001_0040, &[0xee]);
        let request = [Buffer::Read(0x4001_0000, 16), Buffer::Read(0x4001_0100, 512), Buffer::Write(0x4001_0040, 1)];
        let head = rig.request(0, &request);
        assert_eq!((rig.used(0), rig.slot.unkept()), (None, Some(Unkept::Busy)));
        rig.ends.disk_error = None;
        rig.poke();
        put_back(&mut rig, &DISK);
        assert_eq!((rig.used(0), rig.ram.get(0x4001_0040, 1)[0]), (Some((head, 1)), 0));
        assert_eq!(rig.ends.disk[3 * 512..4 * 512], [7; 512]);
        rig.ram.set(0x4001_0100, &[8; 512]);
        let head = rig.request(0, &request);
        put_back(&mut rig, &DISK);
        assert_eq!((rig.used(0), rig.ends.disk[3 * 512]), (Some((head, 1)), 8));
    }

    /// Whatever is put back is refused, or a device that bears what drivers do to it.
    #[test]
    fn garbage_is_refused_or_harmless() {
        let mut seed = 1u32;
        let mut random = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed >> 8
        };
        let (mut refused, mut taken) = (0, 0);
        for plug in PLUGS.iter().cycle().take(4000) {
            let mut rig = Rig::new(plug);
            rig.serve();
            let mut bytes = kept(&rig.slot);
            for _ in 0..=random() % 3 {
                let at = random() as usize % bytes.len();
                bytes[at] = random() as u8;
            }
            let mut slot = Slot::new(plug);
            if slot.restore(&mut &bytes[..]).is_err() {
                refused += 1;
                continue;
            }
            taken += 1;
            rig.slot = slot;
            rig.serve();
            for queue in 0..rig.driver.queues.len() {
                rig.kick(queue);
            }
        }
        assert!(refused > 400 && taken > 400, "{refused} {taken}");
    }
}
