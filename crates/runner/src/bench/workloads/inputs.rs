//! What applications work on: made here, always the same bytes, with integers only; and what their results must be.
//!
//! The sizes are such that an application that has something to compute runs for a hundred to a thousand million
//! instructions: long against loading and linking it, as with MiBench's large inputs, which STAR uses (§6.3); short
//! enough for a board that is emulated.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// Numbers that look like random ones and are always the same (Marsaglia's xorshift32).
struct Noise(u32);

impl Noise {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }

    /// A number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        self.next() as usize % limit
    }
}

/// A sine, near enough, by Bhaskara's formula: `phase` is in 65,536ths of a turn, the result within ±`amplitude`.
fn sine(phase: u32, amplitude: i64) -> i64 {
    let half = i64::from(phase & 0x7fff);
    let bow = half * (0x8000 - half);
    let value = amplitude * 16 * bow / (5 * 0x8000 * 0x8000 - 4 * bow);
    if phase & 0x8000 == 0 { value } else { -value }
}

/// Sound: three tones whose loudness goes up and down, and some noise.
fn sound(rate: u32, samples: u32, noise: i64) -> Vec<u8> {
    let mut random = Noise(1);
    let turn = |hertz: u64, at: u32| (u64::from(at) * hertz * 65536 / u64::from(rate)) as u32;
    let mut bytes = Vec::new();
    for at in 0..samples {
        let tones: i64 = [(220, 3), (554, 5), (1318, 7)]
            .iter()
            .map(|&(hertz, swell)| sine(turn(hertz, at), 3000 + sine(turn(swell, at), 2800)))
            .sum();
        let hiss = i64::from(random.next() % 2048) - 1024;
        let sample = tones + hiss * noise / 1024;
        bytes.extend((sample.clamp(-32768, 32767) as i16).to_le_bytes());
    }
    bytes
}

/// Eight seconds of sound at 44.1 kHz, one channel, as a WAV file.
#[must_use]
pub fn tone() -> Vec<u8> {
    const RATE: u32 = 44_100;
    let samples = sound(RATE, 8 * RATE, 1000);
    let length = samples.len() as u32;
    let mut file = b"RIFF".to_vec();
    file.extend((36 + length).to_le_bytes());
    file.extend(b"WAVEfmt ");
    file.extend(16u32.to_le_bytes());
    file.extend([1, 0, 1, 0]); // PCM, one channel.
    file.extend(RATE.to_le_bytes());
    file.extend((2 * RATE).to_le_bytes());
    file.extend([2, 0, 16, 0]); // Bytes and bits of a sample.
    file.extend(b"data");
    file.extend(length.to_le_bytes());
    file.extend(samples);
    file
}

/// Frames of GSM full rate in [`speech`]: one for each 160 samples.
const GSM_FRAMES: usize = 4000;
/// What they become: 33 bytes each.
pub const GSM_BYTES: usize = GSM_FRAMES * 33;

/// Eighty seconds of what sounds a little like speech: 8 kHz, 16 bits, no header.
#[must_use]
pub fn speech() -> Vec<u8> {
    sound(8000, GSM_FRAMES as u32 * 160, 300)
}

/// A picture of 1920 × 1440 in full colour, as PPM: areas, edges, waves and some noise.
#[must_use]
pub fn picture() -> Vec<u8> {
    const WIDTH: u32 = 1920;
    const HEIGHT: u32 = 1440;
    let mut random = Noise(2);
    let mut file = format!("P6\n{WIDTH} {HEIGHT}\n255\n").into_bytes();
    for y in 0..HEIGHT {
        for x in 0..WIDTH {
            let (dx, dy) = (i64::from(x) - 960, i64::from(y) - 720);
            let inside = dx * dx + dy * dy < 540 * 540;
            let wave = sine(x * 750 + y * 350, 60) + 128;
            let grain = i64::from(random.next() % 16);
            let colours = if inside {
                [wave + grain, 255 - wave, i64::from(y) / 6]
            } else {
                [i64::from(x) / 12 + grain, i64::from(y) / 6 + grain, if x / 80 % 2 == 0 { 200 } else { 60 }]
            };
            file.extend(colours.map(|c| c.clamp(0, 255) as u8));
        }
    }
    file
}

/// Words that every English dictionary has.
const WORDS: &str = "about after again always animal answer because before between bring brother build carry change children \
    city close country different earth enough every example family father follow friend great group happy \
    house important know language large learn letter light little machine measure morning mother mountain \
    never number often paper people picture place plant point quickly read river school second sentence \
    several should simple something sometimes story study their there think through together travelled \
    understand usually voices walking watched water whole without words working world write young yellow \
    yesterday";

/// Words that no dictionary has.
const MISSPELT: &str = "acheive beleive calender definately embarass goverment occured recieve seperate wierd";

/// A text of some 500 KB in which every fiftieth word or so is misspelt.
#[must_use]
pub fn text() -> Vec<u8> {
    prose(80_000, 3).into_bytes()
}

/// A script for a shell, as builds and starts of systems have them: loops, patterns, functions, redirections, and
/// programs for what the shell cannot do. Its arguments are files.
#[must_use]
pub fn script() -> Vec<u8> {
    let script = r#"
longest() {
    line=
    while read -r words; do
        [ ${#words} -le ${#line} ] || line=$words
    done <"$1"
    echo "$line"
}
files=0 sum=0 many=0
for file; do
    files=$((files + 1))
    read -r first rest <"$file"
    case $first in
    a* | t*) sum=$(((sum * 31 + ${#rest}) % 65521)) ;;
    *[aeiou]) continue ;;
    esac
    lines=$(wc -l <"$file")
    [ "$lines" -lt 16 ] || many=$((many + 1))
    [ $((files % 16)) != 0 ] || longest "$file" | tr a-z A-Z
done
echo "$files $sum $many"
"#;
    script.trim_start().into()
}

/// Words in lines. Some are much more frequent than others, as in every language.
fn prose(words: usize, seed: u32) -> String {
    let [right, wrong] = [WORDS, MISSPELT].map(|list| list.split(' ').collect::<Vec<_>>());
    let mut random = Noise(seed);
    let mut text = String::new();
    for at in 0..words {
        if random.below(50) == 0 {
            text.push_str(wrong[random.below(wrong.len())]);
        } else {
            let frequent = random.below(right.len()) * random.below(right.len()) / right.len();
            text.push_str(right[frequent]);
        }
        text.push(if at % 12 == 11 { '\n' } else { ' ' });
    }
    text
}

/// What a spelling checker must find in [`text`]: each of these words once, sorted, a line each.
#[must_use]
pub fn misspelt() -> Vec<u8> {
    format!("{}\n", MISSPELT.replace(' ', "\n")).into_bytes()
}

/// Data to be compressed, 2 MiB: prose, a table of figures, and some that cannot be made smaller.
#[must_use]
pub fn data() -> Vec<u8> {
    const SIZE: usize = 2 << 20;
    let mut random = Noise(4);
    let mut data = prose(192_000, 5).into_bytes();
    data.truncate(SIZE / 2);
    let mut figures = String::new();
    while figures.len() < SIZE / 4 {
        let (a, b, c) = (random.below(1000), random.below(100_000), random.below(7));
        let _ = writeln!(figures, "{a:5} {b:8} {} {}", a + b, ["red", "green", "blue", "-", "0", "1", "yes"][c]);
    }
    data.extend(figures.as_bytes());
    data.truncate(SIZE * 3 / 4);
    while data.len() < SIZE {
        data.push((random.next() >> 11) as u8);
    }
    data
}

/// Rows of the data base.
const ROWS: u64 = 12_000;

/// What a row's second and third column are made of: its number times these, modulo those.
const KEY: (u64, u64) = (7919, 1009);
const VALUE: (u64, u64) = (104_729, 100_003);

/// What SQLite is to do.
#[must_use]
pub fn queries() -> Vec<u8> {
    let (k, km) = KEY;
    let (v, vm) = VALUE;
    format!(
        "PRAGMA synchronous = OFF;\n\
         CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER, v INTEGER, name TEXT);\n\
         BEGIN;\n\
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})\n\
         INSERT INTO t SELECT i, i * {k} % {km}, i * {v} % {vm}, printf('row %05d', i) FROM n;\n\
         COMMIT;\n\
         CREATE INDEX by_k ON t (k);\n\
         SELECT count(*), sum(k), max(v), max(name) FROM t;\n\
         SELECT count(*) FROM t AS a JOIN t AS b ON a.k = b.k WHERE a.id < b.id;\n\
         SELECT v % 10, count(*) FROM t GROUP BY v % 10 ORDER BY 1;\n\
         UPDATE t SET v = v + k WHERE k < 100;\n\
         DELETE FROM t WHERE id % 3 = 0;\n\
         SELECT count(*), sum(v) FROM t;\n\
         SELECT count(*) FROM t WHERE name LIKE '%77%';\n"
    )
    .into_bytes()
}

/// What SQLite must answer.
#[must_use]
pub fn answers() -> Vec<u8> {
    let k = |id: u64| id * KEY.0 % KEY.1;
    let v = |id: u64| id * VALUE.0 % VALUE.1;
    let ids = || 1..=ROWS;
    let mut out = String::new();
    let (sum, most) = (ids().map(k).sum::<u64>(), ids().map(v).max().unwrap_or(0));
    let _ = writeln!(out, "{ROWS}|{sum}|{most}|row {ROWS:05}");
    let mut same: BTreeMap<u64, u64> = BTreeMap::new();
    ids().for_each(|id| *same.entry(k(id)).or_default() += 1);
    let _ = writeln!(out, "{}", same.values().map(|n| n * (n - 1) / 2).sum::<u64>());
    let mut digits: BTreeMap<u64, u64> = BTreeMap::new();
    ids().for_each(|id| *digits.entry(v(id) % 10).or_default() += 1);
    digits.iter().for_each(|(digit, n)| _ = writeln!(out, "{digit}|{n}"));
    let kept = || ids().filter(|id| id % 3 != 0);
    let changed = |id: u64| if k(id) < 100 { v(id) + k(id) } else { v(id) };
    let _ = writeln!(out, "{}|{}", kept().count(), kept().map(changed).sum::<u64>());
    let _ = writeln!(out, "{}", kept().filter(|id| format!("row {id:05}").contains("77")).count());
    out.into_bytes()
}

/// How often each of Redis's commands is sent.
pub const REDIS_REQUESTS: &str = "2000";

/// What Redis must answer afterwards: how often the counter was counted up, how long the list and the value are.
#[must_use]
pub fn redis_answers() -> Vec<u8> {
    format!("{REDIS_REQUESTS}\n{REDIS_REQUESTS}\n3\n").into_bytes()
}

/// An expectation: a SHA-256.
#[must_use]
pub fn sha256(data: &[u8]) -> String {
    let digest: String = Sha256::digest(data).iter().map(|b| format!("{b:02x}")).collect();
    format!("sha256 {digest}")
}

/// An expectation: a length.
#[must_use]
pub fn bytes(length: usize) -> String {
    format!("bytes {length}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_what_they_were() {
        // Results of different versions can be compared only while these are the same.
        let makers: [(&str, super::super::table::Maker); 6] = [
            ("tone", tone),
            ("speech", speech),
            ("picture", picture),
            ("text", text),
            ("data", data),
            ("queries", queries),
        ];
        let digests = makers.map(|(name, make)| format!("{name} {}", &sha256(&make())[7..23]));
        let known = [
            "tone fccb935009d5498e",
            "speech 7e048385a29fb860",
            "picture 91927ee7f06ba1e2",
            "text a012f12af0d7ab11",
            "data cbc3e556c320e192",
            "queries b2cf8c8ae21812fb",
        ];
        assert_eq!(digests, known);
    }

    #[test]
    fn a_sine_is_near_enough() {
        for phase in (0..0x1_0000u32).step_by(97) {
            let exact = (f64::from(phase) / 65536.0 * std::f64::consts::TAU).sin() * 1000.0;
            assert!((sine(phase, 1000) as f64 - exact).abs() < 3.0, "{phase}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(tone().len(), 44 + 8 * 2 * 44_100);
        assert_eq!(speech().len(), 2 * 640_000);
        assert_eq!(picture().len(), 17 + 3 * 1920 * 1440);
        assert_eq!(data().len(), 2 << 20);
    }

    #[test]
    fn all_misspelt_words_are_in_the_text() {
        let text = String::from_utf8(text()).unwrap();
        assert!(MISSPELT.split(' ').is_sorted());
        assert!(MISSPELT.split(' ').all(|w| text.contains(w)));
        assert!(!MISSPELT.split(' ').any(|w| WORDS.split(' ').any(|right| right == w)));
    }
}
