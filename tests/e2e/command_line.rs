//! Bad input to the `spica` command: one clear error each, that names the thing and says what would be right.

use std::fs;
use std::path::PathBuf;

use spica_runner::board;
use spica_runner::error::{Error, FAILED, USAGE};
use spica_runner::prepare::{Request, prepare};
use spica_runner::project::Project;

fn error(change: impl FnOnce(&mut Request)) -> Error {
    let mut request = Request { native: true, ..Request::new(board::find("cubieboard").expect("a board")) };
    change(&mut request);
    prepare(&Project::find(None).expect("the project"), &request).expect_err("the request makes no sense")
}

fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let project = Project::find(None).expect("the project");
    let path = project.build(&format!("test-{}-{name}", std::process::id()));
    fs::create_dir_all(project.build("")).expect("build/");
    fs::write(&path, bytes).expect("a file");
    path
}

#[test]
fn unknown_board() {
    let error = board::find("raspberry").expect_err("no such board");
    assert_eq!(error.status, USAGE);
    let expected = "unknown board \"raspberry\"; the boards are cubieboard (Cortex-A8), vexpress-a9 (Cortex-A9), ";
    assert!(error.message.starts_with(expected), "{error}");
}

#[test]
fn missing_kernel() {
    let error = error(|r| r.kernel = Some("/does/not/exist".into()));
    assert_eq!(error.status, FAILED);
    assert!(error.message.starts_with("--kernel: cannot read /does/not/exist: No such file"), "{error}");
}

#[test]
fn missing_initrd() {
    let error = error(|r| r.initrd = Some("/does/not/exist".into()));
    assert!(error.message.starts_with("--initrd: cannot read /does/not/exist: No such file"), "{error}");
}

#[test]
fn what_firmware_is_to_start() {
    let path = file("firmware", &[0; 4096]);
    let error = error(|r| {
        (r.native, r.bios, r.initrd) = (false, Some(path.clone()), Some(path.clone()));
    });
    let _ = fs::remove_file(&path);
    assert_eq!(error.status, USAGE);
    let expected = "--initrd with --bios is for the kernel that the firmware starts: expected --kernel, too";
    assert_eq!(error.message, expected);
}

#[test]
fn firmware_for_another_processor() {
    let table = [0x2002_0000_u32, 0x0800_01c5, 0x0800_0201, 0x0800_0203];
    let path = file("firmware-m", &table.map(u32::to_le_bytes).concat());
    let error = error(|r| (r.native, r.bios) = (false, Some(path.clone())));
    let _ = fs::remove_file(&path);
    assert_eq!(error.status, USAGE);
    let expected = "it begins with the vector table of a Cortex-M: 0x20020000 for its stack, 0x080001c5 to start at; \
                    expected A32 code, in which an ARMv7-A core starts at the first word of flash";
    assert_eq!(error.message, format!("--bios: {}: {expected}", path.display()));
}

#[test]
fn missing_file_for_fw_cfg() {
    let error = error(|r| r.fw_cfg.push(("opt/a".to_string(), "/does/not/exist".into())));
    assert_eq!(error.status, FAILED);
    assert!(error.message.starts_with("--fw-cfg: cannot read /does/not/exist: No such file"), "{error}");
}

#[test]
fn kernel_that_is_none() {
    let path = file("kernel", &[0; 4096]);
    let error = error(|r| r.kernel = Some(path.clone()));
    let _ = fs::remove_file(&path);
    assert_eq!(error.status, FAILED);
    assert!(error.message.contains("not an ARM Linux zImage"), "{error}");
    assert!(error.message.contains(&path.display().to_string()), "{error}");
}

#[test]
fn memory_that_is_no_size() {
    let error = error(|r| r.memory = Some("lots".into()));
    assert_eq!(error.status, USAGE);
    assert_eq!(error.message, "wrong value \"lots\" of --memory: expected a size such as \"256M\" or \"1G\"");
}

#[test]
fn more_memory_than_the_board_has() {
    let error = error(|r| (r.memory, r.native) = (Some("1G".into()), false));
    assert_eq!(error.status, USAGE);
    let expected = "the guest does not fit cubieboard, which has 512M: it wants 1024M, but ";
    assert!(error.message.starts_with(expected), "{error}");
    assert!(error.message.ends_with("; give it 384M less the size of the bundle, with --memory"), "{error}");
}

#[test]
fn initrd_that_does_not_fit() {
    let path = file("initrd", &vec![0; 20 << 20]);
    let error = error(|r| (r.initrd, r.memory) = (Some(path.clone()), Some("24M".into())));
    let _ = fs::remove_file(&path);
    assert_eq!(error.status, USAGE);
    assert!(error.message.starts_with("the guest's memory of 24M is too small: kernel and initrd"), "{error}");
}
