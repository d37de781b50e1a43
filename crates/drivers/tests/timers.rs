//! The drivers of timers, on models of them (`sp804`, `sun4i`, `am33xx`, `generic_timer`): what holds for all of them,
//! and what is the SP804's and the A10's own. Two whole boards are here, too: a timer whose interrupt goes through the
//! controller.

use crate::support;
use crate::support::am33xx as shape;
use crate::support::controllers as boards;
use boards::{GIC, INTC, with, with_gic, with_intc};
use dtoolkit::model::DeviceTreeNode;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use spica_addr::HostPa;
use spica_drivers::error::BoardError;
use spica_drivers::hardware::{Hardware, Registers};
use spica_drivers::models::bus::{self, Bus, Shared, attach};
use spica_drivers::models::gic::{self, Gic, Shape};
use spica_drivers::models::sp804::{Sp804, Sp810};
use spica_drivers::models::{Lines, am33xx, generic_timer, sun4i};
use spica_drivers::tree::Tree;
use spica_drivers::{Counter, HostTimer, Line};
use support::{node, text, words};

type Board = spica_drivers::Board<Bus>;

const SP804: u32 = 0x1001_1000;
const SP810: u32 = 0x1000_1000;
const A10: u32 = 0x01c2_0c00;

/// A timer that was taken over, and its other side.
struct Rig {
    driver: Box<dyn HostTimer>,
    hertz: u64,
    raised: Box<dyn Fn() -> bool>,
    /// Sets the clock, which has 32 bits, to so many ticks before its turn.
    before_turn: Option<Box<dyn Fn(u32)>>,
    /// Ticks that an interrupt may come late, and a reading be off: what accesses to registers take, and a timer's own
    /// slowness.
    slack: u64,
    /// A one-shot that expires while it is started begins once more, and raises the line a turn later: too early, as
    /// it may.
    strays: bool,
}

impl Rig {
    fn raised(&self) -> bool {
        bus::pass(0);
        (self.raised)()
    }

    fn nanoseconds(&self, ticks: u64) -> u64 {
        ticks * 1_000_000_000 / self.hertz
    }

    /// Lets so many ticks pass.
    fn pass(&self, ticks: u64) {
        bus::pass(self.nanoseconds(ticks));
    }
}

fn sp804_node(clock: Option<u32>) -> DeviceTreeNode {
    let properties =
        [text("compatible", "arm,sp804"), words("reg", &[SP804, 0x1000]), words("interrupts", &[0, 2, 4, 0, 3, 4])];
    node("timer@10011000", properties.into_iter().chain(clock.map(|clock| words("clocks", &[clock, 1]))), [])
}

/// Clocks 2 and 3 are fixed ones, 4 is the system controller, which chooses between them.
fn clocks() -> [DeviceTreeNode; 3] {
    let fixed =
        |name: &str, phandle, hertz| node(name, [words("clock-frequency", &[hertz]), words("phandle", &[phandle])], []);
    let system = [
        text("compatible", "arm,sp810"),
        words("reg", &[SP810, 0x1000]),
        words("phandle", &[4]),
        words("clocks", &[2, 3]),
        text("clock-names", "refclk\0timclk"),
    ];
    [fixed("refclk", 2, 32_768), fixed("timclk", 3, 1_000_000), node("sysctl@10001000", system, [])]
}

struct Versatile {
    gic: Shared<Gic>,
    system: Shared<Sp810>,
    timer: Shared<Sp804>,
}

fn versatile() -> Versatile {
    bus::clear();
    let gic = gic::attach(GIC[0], GIC[1], Shape { version: 1, cores: 4, lines: 96, secure: true });
    let system = attach(SP810, 0x1000, Sp810::new());
    let timer = attach(SP804, 0x1000, Sp804::left(&system));
    Versatile { gic, system, timer }
}

fn discover(tree: &[u8]) -> Result<Board, BoardError> {
    Board::discover(Tree::new(tree).unwrap(), "/none")
}

fn discover_sp804(clock: Option<u32>) -> Result<Board, BoardError> {
    discover(&with_gic(clocks().into_iter().chain([sp804_node(clock)])))
}

fn discover_a10() -> Result<Board, BoardError> {
    let properties = [
        text("compatible", "allwinner,sun4i-a10-timer"),
        words("reg", &[A10, 0x90]),
        words("interrupts", &[22, 23, 24, 25, 67, 68]),
    ];
    discover(&with_intc([node("timer@1c20c00", properties, [])]))
}

fn driver(board: Result<Board, BoardError>) -> Box<dyn HostTimer> {
    board.unwrap_or_else(|error| panic!("{error}")).timer.driver
}

fn sp804() -> Rig {
    let Versatile { timer, .. } = versatile();
    let (raised, set) = (timer.clone(), timer);
    Rig {
        driver: driver(discover_sp804(Some(4))),
        hertz: 1_000_000,
        raised: Box::new(move || raised.borrow().raised()[0]),
        before_turn: Some(Box::new(move |ticks| set.borrow_mut().set_value(ticks))),
        slack: 5,
        strays: false,
    }
}

fn a10() -> Rig {
    bus::clear();
    let lines = Lines::default();
    let timers = attach(A10, 0x90, sun4i::Timers::left(&lines));
    attach(INTC, 0x400, sun4i::Intc::left(&lines));
    let driver = driver(discover_a10());
    // Less than a tick.
    bus::set_speed(10);
    Rig {
        driver,
        hertz: 24_000_000,
        raised: Box::new(move || lines.borrow()[0] >> sun4i::TIMER0 & 1 != 0),
        before_turn: Some(Box::new(move |ticks| timers.borrow_mut().set_current(ticks))),
        slack: 60,
        strays: false,
    }
}

fn am33xx() -> Rig {
    bus::clear();
    let chip = am33xx::Chip::new();
    let (lines, [_, clock]) = (chip.lines, chip.timers);
    let board = Board::discover(Tree::new(&shape::tree(true, 2)).unwrap(), shape::UART);
    Rig {
        driver: driver(board),
        hertz: 24_000_000,
        raised: Box::new(move || lines.borrow()[am33xx::TIMER2 as usize / 32] >> (am33xx::TIMER2 % 32) & 1 != 0),
        before_turn: Some(Box::new(move |ticks| clock.borrow_mut().set_count(ticks.wrapping_neg()))),
        slack: 100,
        strays: true,
    }
}

fn generic() -> Rig {
    bus::clear();
    generic_timer::attach(62_500_000, 62_500_000);
    gic::attach(GIC[0], GIC[1], Shape { version: 2, cores: 1, lines: 64, secure: true });
    let interrupts = words("interrupts", &[1, 13, 4, 1, 14, 4, 1, 11, 4, 1, 10, 4]);
    let tree = with_gic([node("timer", [text("compatible", "arm,armv7-timer"), interrupts], [])]);
    Rig {
        driver: driver(discover(&tree)),
        hertz: 62_500_000,
        raised: Box::new(generic_timer::raised),
        before_turn: None,
        slack: 10,
        strays: false,
    }
}

/// Does something with every timer. A failure's output ends with the name of the one that failed.
fn with_each(act: impl Fn(&mut Rig)) {
    for (name, rig) in [("SP804", sp804 as fn() -> Rig), ("A10", a10), ("AM335x", am33xx), ("generic", generic)] {
        println!("{name}");
        act(&mut rig());
    }
}

/// How far a counter of 32 bits is let run before somebody has to look.
const HALF_TURN: u64 = 1 << 31;

#[track_caller]
fn about(time: u64, ticks: u64, slack: u64) {
    assert!(time.abs_diff(ticks) <= slack, "{time} instead of {ticks} ticks");
}

/// Waits for something, and looks every so many nanoseconds.
#[track_caller]
fn wait(until: impl Fn() -> bool, nanoseconds: u64) {
    let patience = 100_000;
    for _ in 0..patience {
        if until() {
            return;
        }
        bus::pass(nanoseconds);
    }
    panic!("the interrupt does not come");
}

#[test]
fn a_timer_is_quiet_when_it_was_taken_over() {
    with_each(|rig| {
        assert!(!rig.raised(), "an interrupt of somebody else's");
        assert_eq!(u64::from(rig.driver.frequency()), rig.hertz);
        // The clock has not gone through a turn, which what was there before might have looked like.
        let first = rig.driver.now();
        assert!(first < rig.hertz, "{first}");
        about(rig.driver.now(), first, rig.slack);
        bus::pass(10_000_000_000);
        assert!(!rig.raised());
    });
}

#[test]
fn the_clock_goes_on_through_turns() {
    with_each(|rig| {
        let start = rig.driver.now();
        rig.pass(10 * rig.hertz);
        about(rig.driver.now() - start, 10 * rig.hertz, rig.slack);
        let Some(before_turn) = &rig.before_turn else { return };
        for turns in 1..4 {
            before_turn(1000);
            let before = rig.driver.now();
            assert_eq!(before >> 32, turns - 1);
            rig.pass(500_000);
            let after = rig.driver.now();
            about(after - before, 500_000, rig.slack);
            assert_eq!(after >> 32, turns);
        }
    });
}

#[test]
fn a_deadline_raises_the_line_and_is_used_up() {
    with_each(|rig| {
        for ticks in [1000, 70_000, 3 * rig.hertz] {
            let deadline = rig.driver.now() + ticks;
            rig.driver.set_deadline(Some(deadline));
            rig.pass(ticks - 2 * rig.slack);
            assert!(!rig.raised(), "{ticks}");
            rig.pass(4 * rig.slack);
            assert!(rig.raised(), "{ticks}");
            assert!(rig.driver.now() >= deadline);
            rig.driver.acknowledge();
            assert!(!rig.raised(), "{ticks}");
            bus::pass(20_000_000_000);
            assert!(!rig.raised(), "it comes twice");
        }
    });
}

/// The line must not be raised before the clock shows that the deadline has passed: otherwise a handler finds nothing
/// to do.
#[test]
fn a_deadline_is_not_early() {
    with_each(|rig| {
        for ticks in 1..100 {
            let deadline = rig.driver.now() + ticks;
            rig.driver.set_deadline(Some(deadline));
            wait(|| rig.raised(), 100_000_000 / rig.hertz + 10);
            let now = rig.driver.now();
            assert!(now >= deadline, "{now}, and the deadline is {deadline}");
            rig.driver.acknowledge();
        }
    });
}

#[test]
fn a_deadline_replaces_the_one_before() {
    with_each(|rig| {
        for (first, then) in [(2_000, 50_000), (50_000, 2_000)] {
            let now = rig.driver.now();
            rig.driver.set_deadline(Some(now + first));
            rig.pass(100);
            rig.driver.set_deadline(Some(now + then));
            rig.pass(then - 100 - 3 * rig.slack);
            assert!(!rig.raised(), "{first}, then {then}");
            rig.pass(6 * rig.slack);
            assert!(rig.raised(), "{first}, then {then}");
            rig.driver.acknowledge();
        }
        let now = rig.driver.now();
        rig.driver.set_deadline(Some(now + 2_000));
        rig.driver.set_deadline(None);
        rig.pass(100_000);
        assert!(!rig.raised(), "a deadline that was taken back");
    });
}

#[test]
fn a_deadline_that_has_passed_comes_at_once() {
    with_each(|rig| {
        rig.pass(1_000_000);
        let now = rig.driver.now();
        for deadline in [0, 1, now - 1, now, now + 1] {
            rig.driver.set_deadline(Some(deadline));
            rig.pass(rig.slack);
            assert!(rig.raised(), "{deadline} at {now}");
            rig.driver.acknowledge();
            assert!(!rig.raised());
        }
    });
}

#[test]
fn a_clock_of_32_bits_is_looked_at_in_time() {
    with_each(|rig| {
        for ticks in [None, Some(u64::MAX), Some(1 << 32), Some(HALF_TURN + 10 * rig.slack)] {
            let now = rig.driver.now();
            rig.driver.set_deadline(ticks.map(|ticks| now.saturating_add(ticks)));
            rig.pass(HALF_TURN - 2 * rig.slack);
            assert!(!rig.raised());
            rig.pass(4 * rig.slack);
            assert_eq!(rig.raised(), rig.before_turn.is_some(), "nobody looks at the clock before it wraps");
            rig.driver.acknowledge();
        }
    });
}

#[test]
fn a_far_deadline_comes_in_the_end() {
    with_each(|rig| {
        let start = rig.driver.now();
        let deadline = start + 3 * (1 << 32) + 12_345;
        let mut looks = 0;
        loop {
            rig.driver.set_deadline(Some(deadline));
            let mut step = deadline - rig.driver.now();
            if rig.before_turn.is_some() {
                step = step.min(HALF_TURN);
            }
            rig.pass(step + rig.slack);
            assert!(rig.raised());
            rig.driver.acknowledge();
            looks += 1;
            if rig.driver.now() >= deadline {
                break;
            }
        }
        about(rig.driver.now(), deadline, 4 * rig.slack);
        assert_eq!(looks, if rig.before_turn.is_some() { 7 } else { 1 });
    });
}

#[derive(Clone, Copy, Debug)]
enum Act {
    /// A deadline so many ticks from now, or before now; or none.
    Deadline(Option<i64>),
    Pass(u64),
    Acknowledge,
}

fn act() -> impl Strategy<Value = Act> {
    let ticks = prop_oneof![0..300i64, 0..1_000_000i64, 0..1i64 << 33, -1000..0i64];
    prop_oneof![
        3 => prop::option::weighted(0.9, ticks).prop_map(Act::Deadline),
        4 => prop_oneof![0..300u64, 0..1_000_000u64, 0..HALF_TURN].prop_map(Act::Pass),
        2 => Just(Act::Acknowledge),
    ]
}

/// The clock is right, and the line is raised when it has to be: at the deadline, or after half a turn, and not before.
fn run(rig: &mut Rig, acts: &[Act]) {
    let time = |hertz: u64| (u128::from(bus::now()) * u128::from(hertz) / 1_000_000_000) as u64;
    let begin = time(rig.hertz) - rig.driver.now();
    // When the deadline comes, or the clock has to be looked at; and since when the line is raised, or will be.
    let (mut next, mut due): (Option<u64>, Option<u64>) = (None, None);
    let latched = rig.before_turn.is_some();
    let mut last = 0;
    // Each step ends with a look at the clock, so none may be longer than a turn.
    for &act in acts {
        let now = rig.driver.now();
        match act {
            Act::Deadline(ticks) => {
                let deadline = ticks.map(|ticks| now.saturating_add_signed(ticks));
                rig.driver.set_deadline(deadline);
                let farthest = latched.then_some(now + HALF_TURN);
                next = [deadline, farthest].into_iter().flatten().min().map(|next| next.max(now));
                // What was raised stays so until it is acknowledged, also if it came at the last moment; but a generic
                // timer's line follows the deadline.
                rig.pass(rig.slack);
                let already = due.filter(|&due| latched && rig.raised() && due <= now + rig.slack);
                due = already.or(next);
            }
            Act::Pass(ticks) => rig.pass(ticks),
            Act::Acknowledge => {
                rig.pass(rig.slack);
                if latched && !rig.raised() {
                    continue;
                }
                rig.driver.acknowledge();
                // The deadline is used up, if it was what raised the line. If it is near, that is for the timer to say.
                let near = next.is_some_and(|next| next.abs_diff(now) <= 3 * rig.slack);
                assert!(near || !rig.raised());
                rig.pass(4 * rig.slack);
                next = next.filter(|&next| latched && (rig.raised() || next > now + 3 * rig.slack));
                due = next;
            }
        }
        let (raised, now) = (rig.raised(), rig.driver.now());
        assert!(now >= last, "{now} behind {last}");
        last = now;
        about(now, time(rig.hertz) - begin, rig.slack);
        if rig.strays && raised {
            due = due.or(Some(now));
        }
        match due {
            Some(due) if now > due + rig.slack => assert!(raised, "not raised at {now}, due at {due}"),
            Some(due) if now + rig.slack >= due => {}
            _ => assert!(!raised, "raised at {now}, due {due:?}"),
        }
    }
}

/// The same cases each time.
fn cases() -> ProptestConfig {
    let rng_seed = RngSeed::Fixed(1);
    ProptestConfig { cases: 64, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn the_line_is_raised_when_it_is_due(acts in prop::collection::vec(act(), 1..40)) {
        with_each(|rig| run(rig, &acts));
    }
}

#[test]
fn an_sp804_has_the_clock_that_the_tree_tells() {
    let board = versatile();
    board.system.borrow_mut().missing = true;
    // A board that emulates no SP810 gives its timers TIMCLK.
    let timer = driver(discover_sp804(Some(4)));
    assert_eq!(timer.counter(), Some(Counter { address: SP804 + 0x24, down: true }));
    assert_eq!(timer.frequency(), 1_000_000);
    versatile();
    assert_eq!(driver(discover_sp804(Some(2))).frequency(), 32_768);
    versatile();
    for clock in [None, Some(9)] {
        let error = discover_sp804(clock).err().unwrap();
        assert_eq!(error.property, "clocks");
    }
}

#[test]
fn the_second_timer_of_an_sp804_raises_nothing() {
    let board = versatile();
    let mut timer = driver(discover_sp804(Some(4)));
    board.timer.borrow_mut().set_value(10);
    bus::pass(1_000_000);
    timer.now();
    assert_eq!(board.timer.borrow().raised(), [false; 2]);
}

#[test]
fn a_clock_that_stands_still_is_an_error() {
    let board = versatile();
    board.timer.borrow_mut().broken = true;
    assert!(discover_sp804(Some(4)).err().unwrap().problem.contains("does not count"));
    bus::clear();
    let lines = Lines::default();
    attach(A10, 0x90, sun4i::Timers::left(&lines)).borrow_mut().broken = true;
    attach(INTC, 0x400, sun4i::Intc::left(&lines));
    assert!(discover_a10().err().unwrap().problem.contains("does not count"));
}

#[test]
fn registers_that_are_too_few_are_an_error() {
    versatile();
    let registers = words("reg", &[SP804, 0x20]);
    let timer = [text("compatible", "arm,sp804"), registers, words("interrupts", &[0, 2, 4]), words("clocks", &[2])];
    let error = discover(&with_gic(clocks().into_iter().chain([node("timer", timer, [])]))).err().unwrap();
    assert_eq!(error.property, "reg");
    bus::clear();
    attach(INTC, 0x400, sun4i::Intc::left(&Lines::default()));
    let registers = words("reg", &[A10, 0x20]);
    let timer = [text("compatible", "allwinner,sun4i-a10-timer"), registers, words("interrupts", &[22])];
    let error = discover(&with("allwinner,sun4i-a10-ic", 1, &[INTC, 0x400], [node("timer", timer, [])])).err().unwrap();
    assert_eq!((error.node.as_str(), error.property), ("/timer", "reg"));
}

/// Ten interrupts, one each millisecond, as `spica.selftest` has them.
fn tick(board: &mut Board, irq: impl Fn() -> bool) {
    let (timer, controller) = (&mut board.timer.driver, &mut board.interrupts.driver);
    controller.enable(board.timer_line);
    let period = u64::from(timer.frequency()) / 1000;
    let start = timer.now();
    timer.set_deadline(Some(start + period));
    for n in 1..=10 {
        wait(&irq, 1_000);
        assert_eq!(controller.acknowledge(), Some(board.timer_line));
        timer.acknowledge();
        let now = timer.now();
        assert!(now >= start + n * period && now < start + n * period + period / 10, "{now}");
        timer.set_deadline(Some(start + (n + 1) * period));
        controller.end(board.timer_line);
        assert!(!irq());
        assert_eq!(controller.acknowledge(), None);
    }
}

/// The same as assembly does it, by what drivers tell: nothing is acknowledged, nor ended.
fn tick_by_registers(board: &mut Board, irq: impl Fn() -> bool) {
    let (timer, controller) = (&mut board.timer.driver, &mut board.interrupts.driver);
    let waiting = controller.waiting(board.timer_line).unwrap();
    let alarm = timer.alarm().unwrap();
    let register = |address| Bus::map(HostPa(address), 4).unwrap();
    let is_waiting = || register(waiting.address).read(0) & waiting.mask == waiting.value;
    let period = timer.frequency() / 1000;
    let start = timer.now();
    timer.set_deadline(Some(start + u64::from(period)));
    let mut due = start + u64::from(period);
    for _ in 0..10 {
        assert!(!is_waiting());
        wait(&irq, 1_000);
        assert!(is_waiting() && is_waiting(), "to look changes nothing");
        let control = register(alarm.control);
        assert_eq!(control.read(0) & alarm.running, 0);
        register(alarm.status).write(0, alarm.lower);
        if alarm.running == 0 {
            assert_eq!(alarm.pause, 0);
            control.write(0, alarm.stop);
        }
        register(alarm.interval).write(0, period);
        control.write(0, alarm.start);
        let now = timer.now();
        assert!(now >= due && now < due + u64::from(period) / 10, "{now}, {due}");
        due = now + u64::from(period);
        assert!(!irq() && !is_waiting());
        assert_eq!(controller.acknowledge(), None);
    }
    // One that has not come yet runs.
    assert!(alarm.running == 0 || register(alarm.control).read(0) & alarm.running != 0);
}

#[test]
fn the_interrupts_of_an_sp804_go_through_the_gic() {
    let Versatile { gic, timer, .. } = versatile();
    let mut board = discover_sp804(Some(4)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(board.timer_line, Line(34));
    let irq = || {
        let [raised, _] = timer.borrow().raised();
        gic.borrow_mut().set_line(34, raised);
        gic.borrow().irq()
    };
    tick(&mut board, irq);
    tick_by_registers(&mut board, irq);
    assert_eq!(board.interrupts.driver.waiting(Line(29)), None, "a private interrupt may be latched");
}

#[test]
fn the_interrupts_of_an_a10s_timer_go_through_its_controller() {
    bus::clear();
    let lines = Lines::default();
    let timers = attach(A10, 0x90, sun4i::Timers::left(&lines));
    let intc = attach(INTC, 0x400, sun4i::Intc::left(&lines));
    let mut board = discover_a10().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(board.timer_line, Line(sun4i::TIMER0));
    assert_eq!(board.timer.driver.counter(), Some(Counter { address: A10 + 0x28, down: true }));
    assert_eq!(timers.borrow().enabled(), 1, "another timer may interrupt");
    tick(&mut board, || intc.borrow().irq());
    tick_by_registers(&mut board, || intc.borrow().irq());
    assert_eq!(board.interrupts.driver.waiting(Line(0)), None, "which is how the vector says that there is none");
}
