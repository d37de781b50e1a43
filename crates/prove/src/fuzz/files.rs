//! Files and lines: what they say may be wrong in any way, and reading them must end, with an error or with something
//! that keeps what it promises.

use spica_addr::GuestPa;
use spica_bundle::archive::Writer;
use spica_bundle::image::FixedKernel;
use spica_bundle::{Address, Bundle, Kernel, MANIFEST, Manifest, Place, Start, ZImage};
use spica_console::command::Lines;
use spica_drivers::info::Info;
use spica_drivers::tree::{Node, Tree};
use spica_machine::fdt::{FdtSpec, adapt, build};
use spica_machine::loader::{Program, plan};
use spica_machine::map;
use spica_options::Options;

/// See [`super::TARGETS`].
pub fn bundle(data: &[u8]) {
    match Bundle::parse(data) {
        Ok(bundle) => {
            for guest in bundle.guests() {
                match &guest.start {
                    Start::Kernel(Kernel::ZImage(file)) => {
                        assert!(ZImage::parse(file).is_ok(), "a guest without a kernel came through");
                    }
                    Start::Kernel(Kernel::Fixed(kernel)) => in_ram(kernel, guest.memory_bytes),
                    Start::Firmware { banks: [first, _], .. } => {
                        assert!(!first.is_empty(), "a guest without firmware came through")
                    }
                }
            }
            let _ = bundle.uplink();
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Every piece of the kernel is, and none is in the place of another.
fn in_ram(kernel: &FixedKernel<'_>, ram: u32) {
    let spans: Vec<_> = kernel.pieces.iter().map(|piece| (u64::from(piece.start), piece.len())).collect();
    let start = u64::from(map::RAM.0);
    for (n, &(at, len)) in spans.iter().enumerate() {
        assert!(at >= start && at + len <= start + u64::from(ram), "a piece outside of RAM");
        assert!(spans[..n].iter().all(|&(other, bytes)| other + bytes <= at || at + len <= other), "pieces overlap");
    }
}

/// See [`super::TARGETS`].
pub fn manifest(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for place in [Place::Board, Place::Workstation] {
        match Manifest::parse(&text, place) {
            Ok(manifest) => {
                let again = Manifest::parse(&manifest.to_toml(), place);
                let again =
                    again.unwrap_or_else(|e| panic!("what was written cannot be read: {e}\n{}", manifest.to_toml()));
                assert_eq!(again.to_toml(), manifest.to_toml());
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// See [`super::TARGETS`].
pub fn zimage(data: &[u8]) {
    let bytes = &mut super::bytes::Bytes::new(data);
    let (initrd, dtb, ram) = (bytes.value(), bytes.value(), bytes.value());
    let kernel = bytes.rest();
    let address = Address { load: bytes_of(kernel, 0), entry: bytes_of(kernel, 4) };
    for address in [Address::default(), Address { entry: None, ..address }, address] {
        let kernel = match Kernel::parse(kernel, address, ram.min(map::MAX_RAM)) {
            Ok(kernel) => kernel,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                continue;
            }
        };
        let extents: Vec<_> = match &kernel {
            Kernel::ZImage(_) => Vec::new(),
            Kernel::Fixed(fixed) => {
                in_ram(fixed, ram);
                fixed.pieces.iter().map(|piece| (GuestPa(piece.start), piece.len() as u32)).collect()
            }
        };
        let program = match &kernel {
            Kernel::ZImage(file) => Program::ZImage(file.len() as u32),
            Kernel::Fixed(fixed) => Program::Fixed { pieces: &extents, entry: GuestPa(fixed.entry) },
        };
        planned(&program, &extents, initrd, dtb, ram);
    }
}

/// A word of `file`, as an address of a raw image.
fn bytes_of(file: &[u8], at: usize) -> Option<u32> {
    file.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

fn planned(program: &Program<'_>, extents: &[(GuestPa, u32)], initrd: u32, dtb: u32, ram: u32) {
    match plan(program, initrd, dtb, ram) {
        Ok(place) => {
            let end = |at: GuestPa, len: u32| u64::from(at.0 - map::RAM.0) + u64::from(len);
            if let Program::ZImage(len) = *program {
                assert!(end(place.entry, len) <= end(place.initrd, 0), "the kernel reaches the RAM disk");
            }
            let clear =
                |&(at, len): &(GuestPa, u32)| end(at, len) <= end(place.initrd, 0) || end(place.dtb, dtb) <= end(at, 0);
            assert!(extents.iter().all(clear), "a piece of the kernel is where the RAM disk or the device tree goes");
            assert!(end(place.initrd, initrd) <= end(place.dtb, 0), "the RAM disk reaches the device tree");
            assert!(end(place.dtb, dtb) <= u64::from(ram), "the device tree is not in RAM");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn spec() -> FdtSpec<'static> {
    FdtSpec {
        ram_size: 256 << 20,
        bootargs: "console=ttyAMA0",
        initrd: Some((GuestPa(0x4800_0000), 0x1234)),
        cpu_compatible: "arm,cortex-a8",
        flash: false,
    }
}

/// See [`super::TARGETS`].
pub fn guest_tree(data: &[u8]) {
    let _ = spica_bundle::check_dtb(data);
    if let Ok(adapted) = adapt(data, &spec()) {
        assert!(adapt(&adapted, &spec()).is_ok(), "what was adapted is damaged");
    }
}

fn visit<'a>(tree: Tree<'a>, node: &Node<'a>, left: &mut u32) {
    if *left == 0 {
        return;
    }
    *left -= 1;
    let _ = (node.path(), node.is_enabled(), node.compatible().count(), node.pairs("ranges"), node.word("phandle"));
    for index in 0..3 {
        let _ = (node.reg(index), tree.interrupt(node, index));
    }
    for child in node.children() {
        visit(tree, &child, left);
    }
}

/// See [`super::TARGETS`].
pub fn board_tree(data: &[u8]) {
    let Ok(tree) = Tree::new(data) else { return };
    let _ = Info::read(tree);
    assert!(tree.reservations().take(10_000).count() < 10_000, "more reservations than bytes");
    visit(tree, &tree.root(), &mut 200);
    let _ = tree.at("/soc/serial@9000000").is_some();
}

/// See [`super::TARGETS`].
pub fn monitor(data: &[u8]) {
    let mut lines = Lines::default();
    for &byte in data {
        let _ = lines.typed(byte);
    }
    let _ = Options::parse(&String::from_utf8_lossy(data));
}

/// The smallest kernel.
fn kernel() -> Vec<u8> {
    let mut kernel = vec![0; 0x40];
    kernel[0x24..0x28].copy_from_slice(&ZImage::MAGIC.to_le_bytes());
    kernel[0x2c..0x30].copy_from_slice(&0x40u32.to_le_bytes());
    kernel
}

const MANIFESTS: [&str; 3] = [
    "[[guest]]\nname = \"a\"\nkernel = \"k\"\nmemory = \"64M\"\n",
    "[[guest]]\nname = \"a\"\nkernel = \"k\"\ninitrd = \"i\"\nappend = \"x=y\"\nmemory = \"128M\"\nweight = 200\n\
     [[guest]]\nname = \"b\"\nkernel = \"k\"\nmemory = \"96M\"\n",
    include_str!("../../../../guests/two.toml"),
];

/// Archives with each of the manifests.
pub fn bundle_seeds() -> Vec<Vec<u8>> {
    let archive = |manifest: &str| {
        let mut writer = Writer::new();
        writer.file(MANIFEST, 0o644, manifest.as_bytes());
        writer.file("k", 0o644, &kernel());
        writer.file("i", 0o644, b"070701");
        writer.finish()
    };
    MANIFESTS.iter().map(|manifest| archive(manifest)).collect()
}

/// Manifests as people write them.
pub fn manifest_seeds() -> Vec<Vec<u8>> {
    let pair = include_str!("../../../../guests/debian-pair.toml");
    MANIFESTS.iter().chain([&pair]).map(|manifest| manifest.as_bytes().to_vec()).collect()
}

/// A kernel that fits.
pub fn zimage_seeds() -> Vec<Vec<u8>> {
    let mut seed = vec![0, 16, 0, 16, 1, 28];
    seed.extend(kernel());
    vec![seed]
}

/// A tree as small as it gets, with what readers look for: a fuzzer gets on with it sooner than with a whole one.
fn small_tree() -> Vec<u8> {
    const NAMES: [&str; 10] = [
        "#address-cells",
        "#size-cells",
        "reg",
        "compatible",
        "interrupts",
        "interrupt-parent",
        "phandle",
        "#interrupt-cells",
        "ranges",
        "device_type",
    ];
    let strings: Vec<u8> = NAMES.iter().flat_map(|name| name.bytes().chain([0])).collect();
    let offset = |name: &str| NAMES.iter().take_while(|&&other| other != name).map(|name| name.len() as u32 + 1).sum();
    let mut words: Vec<u32> = Vec::new();
    let begin = |words: &mut Vec<u32>, name: &[u8; 4]| words.extend([1, u32::from_be_bytes(*name), 0]);
    let property = |words: &mut Vec<u32>, name: &str, value: &[u32]| {
        words.extend([3, 4 * value.len() as u32, offset(name)]);
        words.extend(value);
    };
    words.extend([1, 0]);
    property(&mut words, "#address-cells", &[2]);
    property(&mut words, "#size-cells", &[2]);
    property(&mut words, "interrupt-parent", &[1]);
    begin(&mut words, b"memo");
    property(&mut words, "reg", &[0, 0x4000_0000, 0, 0x1000_0000]);
    property(&mut words, "device_type", &[u32::from_be_bytes(*b"memo"), u32::from_be_bytes(*b"ry\0\0")]);
    words.push(2);
    begin(&mut words, b"intc");
    property(&mut words, "#interrupt-cells", &[3]);
    property(&mut words, "phandle", &[1]);
    property(&mut words, "ranges", &[]);
    begin(&mut words, b"uart");
    property(&mut words, "reg", &[0, 0x0900_0000, 0, 0x1000]);
    property(&mut words, "interrupts", &[0, 1, 4]);
    property(&mut words, "compatible", &[u32::from_be_bytes(*b"a,b\0")]);
    words.extend([2, 2, 2, 9]);
    let (tree, reserve) = (4 * words.len() as u32, 40);
    let size = reserve + 16 + tree + strings.len() as u32;
    let header = [0xd00d_feed, size, reserve + 16, reserve + 16 + tree, reserve, 17, 16, 0, strings.len() as u32, tree];
    let words = header.into_iter().chain([0; 4]).chain(words);
    words.flat_map(u32::to_be_bytes).chain(strings).collect()
}

/// The machine's own tree, and a small one.
pub fn guest_tree_seeds() -> Vec<Vec<u8>> {
    vec![small_tree(), build(&spec())]
}

/// What people type.
pub fn monitor_seeds() -> Vec<Vec<u8>> {
    [
        "ab\x1dlist\r",
        "\x1dpause 1\r",
        "\x1d#12 stats web\r\x1d\x1d",
        "\x1d#a debug web break 8001 7 5\r\x1d#b debug web catch ttbr 4000406a\r\x1d#c debug web uncatch ttbr\r",
        "spica.log=debug spica.translation=naive,+link",
    ]
    .map(|line| line.as_bytes().to_vec())
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_get_through() {
        assert!(bundle_seeds().iter().any(|seed| Bundle::parse(seed).is_ok()));
        for seed in guest_tree_seeds() {
            assert!(adapt(&seed, &spec()).is_ok());
            let tree = Tree::new(&seed).expect("a tree");
            assert!(Info::read(tree).is_ok());
        }
        assert!(plan(&Program::ZImage(kernel().len() as u32), 16, 16, 1 << 28).is_ok());
    }
}
