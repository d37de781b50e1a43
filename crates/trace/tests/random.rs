//! Whatever is recorded, there is a timeline, in the format's order, that ends where the records do.

use spica_trace::{Timeline, page};
use spica_trace_ring::record::KINDS;

use crate::Recorder;
use crate::perfetto::check;

#[test]
fn any_records_make_a_timeline() {
    let mut seed = 4u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u32
    };
    for _ in 0..200 {
        let mut it = Recorder::default();
        let mut time = 0;
        for _ in 0..random() % 200 {
            time += u64::from(random() % 50);
            let kind = if random() % 4 == 0 { random() as u8 } else { random() as u8 % (KINDS - 10) };
            let guest = if random() % 8 == 0 { random() as u8 } else { random() as u8 % 2 };
            let argument = [random(), 27, 0x4100_0059, 0x4200_0059, 0x10][random() as usize % 5];
            it.add(time, kind, guest, [random(), random() % 100, argument]);
        }
        let timeline = it.timeline();
        check(&timeline);
        check(&Timeline::new(&it.recording(), Some(1)));
        let (begin, end) = timeline.range;
        let spans = timeline.rows.values().flatten().flat_map(|row| &row.spans);
        assert!(spans.clone().all(|span| begin <= span.begin && span.begin <= span.end && span.end <= end));
        assert!(page::write(&timeline).is_ok());
    }
}
