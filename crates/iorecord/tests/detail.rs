//! Which events belong to an I/O, in synthetic files.
#![allow(missing_docs, clippy::unwrap_used, clippy::pedantic)]

#[path = "../../tracedat/tests/common/mod.rs"]
mod common;

use common::{Item, Page, Shape, file_with};
use iorecord::{Call, Found, Op, Wanted, calls, io_events, io_events_json, outline};

const DISK: u64 = 8 << 20;
const SHAPE: Shape = Shape {
    page_size: 4096,
    ..Shape::PLAIN
};

/// System, name, and fields: declaration, size, signed.
type Event = (
    &'static str,
    &'static str,
    &'static [(&'static str, usize, u8)],
);

const SECTORS: &[(&str, usize, u8)] = &[
    ("dev_t dev", 4, 0),
    ("sector_t sector", 8, 0),
    ("unsigned int nr_sector", 4, 0),
];
const NVME: &[(&str, usize, u8)] = &[("int ctrl_id", 4, 1), ("int qid", 4, 1), ("u16 cid", 2, 0)];
const EVENTS: &[Event] = &[
    ("syscalls", "sys_enter_pread64", &[("int nr", 4, 1)]),
    (
        "syscalls",
        "sys_exit_pread64",
        &[("int nr", 4, 1), ("long ret", 8, 1)],
    ),
    ("block", "block_bio_queue", SECTORS),
    ("block", "block_rq_issue", SECTORS),
    ("block", "block_rq_complete", SECTORS),
    ("nvme", "nvme_setup_cmd", NVME),
    ("nvme", "nvme_complete_rq", NVME),
    ("ufs", "ufshcd_command", &[("unsigned int tag", 4, 0)]),
    ("irq", "irq_handler_entry", &[("int irq", 4, 1)]),
    (
        "sched",
        "sched_switch",
        &[("pid_t prev_pid", 4, 1), ("pid_t next_pid", 4, 1)],
    ),
    ("misc", "odd", &[("u8 raw[4]", 4, 0), ("void * at", 8, 0)]),
];

/// Time, task, event, values.
type Line = (u64, u64, &'static str, &'static [u64]);

fn trace(lines: &[Line]) -> tempfile::Path {
    let format = |(id, event): (usize, &Event)| {
        let mut text = format!(
            "name: {}\nID: {}\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:int common_pid;\toffset:2;\tsize:4;\tsigned:1;\n",
            event.1,
            id + 10
        );
        let mut at = 6;
        for (declaration, size, signed) in event.2 {
            text +=
                &format!("\tfield:{declaration};\toffset:{at};\tsize:{size};\tsigned:{signed};\n");
            at += size;
        }
        (event.0, text + "\nprint fmt: \"\"\n")
    };
    let formats: Vec<_> = EVENTS.iter().enumerate().map(format).collect();
    let mut items = Vec::new();
    let mut last = 0;
    for (ts, pid, name, values) in lines {
        let id = EVENTS.iter().position(|e| e.1 == *name).unwrap();
        let mut record = SHAPE.int(id as u64 + 10, 2);
        record.extend(SHAPE.int(*pid, 4));
        for ((_, size, _), value) in EVENTS[id].2.iter().zip(*values) {
            record.extend(SHAPE.int(*value, *size));
        }
        items.push(Item::Event(ts - last, record));
        last = *ts;
    }
    let page = Page {
        ts: 0,
        missed: None,
        items,
    };
    tempfile::write(&file_with(&SHAPE, &formats, &[(0, vec![page])]))
}

/// A file that goes away with its name.
mod tempfile {
    use std::sync::atomic::{AtomicU32, Ordering};

    pub struct Path(pub std::path::PathBuf);

    impl Drop for Path {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    pub fn write(bytes: &[u8]) -> Path {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "iotoll-detail-{}-{}.dat",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        Path(path)
    }
}

fn plain(pid: i32, time: (u64, u64)) -> Wanted {
    Wanted {
        pid,
        time: time.0..=time.1,
        dev: Some("8:0".into()),
        sectors: None,
        alone: true,
    }
}

fn times(found: &Found) -> Vec<u64> {
    found.events.iter().map(|e| e.ts).collect()
}

/// Two reads at a time: 42 submits itself, 43's request is issued by a worker (7).
const TWO: &[Line] = &[
    (5, 42, "odd", &[0, 0]),
    (10, 42, "sys_enter_pread64", &[67]),
    (11, 43, "sys_enter_pread64", &[67]),
    (12, 42, "block_bio_queue", &[DISK + 1, 800, 8]),
    (13, 43, "block_bio_queue", &[DISK, 900, 8]),
    (14, 42, "nvme_setup_cmd", &[0, 1, 0x7005]),
    (15, 42, "block_rq_issue", &[DISK, 800, 8]),
    (16, 42, "sched_switch", &[42, 7]),
    (17, 7, "nvme_setup_cmd", &[0, 1, 0x7006]),
    (18, 7, "block_rq_issue", &[DISK, 900, 8]),
    (20, 7, "nvme_setup_cmd", &[1, 1, 0x7005]),
    (21, 7, "block_rq_issue", &[DISK, 4000, 8]),
    (60, 0, "irq_handler_entry", &[3]),
    (61, 0, "nvme_complete_rq", &[0, 1, 6]),
    (62, 0, "block_rq_complete", &[DISK, 900, 8]),
    (63, 0, "nvme_complete_rq", &[1, 1, 5]),
    (64, 0, "nvme_complete_rq", &[0, 1, 5]),
    (65, 0, "block_rq_complete", &[DISK, 800, 8]),
    (66, 0, "sched_switch", &[0, 42]),
    (70, 42, "sys_exit_pread64", &[67, u64::MAX]),
    (71, 0, "sched_switch", &[0, 43]),
    (75, 43, "sys_exit_pread64", &[67, 4096]),
    (80, 42, "odd", &[0, 0]),
];

#[test]
fn each_io_gets_its_own_events() {
    let file = trace(TWO);
    let wanted = [plain(43, (11, 75)), plain(42, (10, 70))];
    let found = io_events(&file.0, &wanted, 100).unwrap();
    // The worker's command is tied to the request issued right after it, on the same CPU.
    assert_eq!(times(&found[0]), [11, 13, 17, 18, 60, 61, 62, 71, 75]);
    assert_eq!(
        times(&found[1]),
        [10, 12, 14, 15, 16, 60, 64, 65, 66, 70],
        "another controller's tag 5 is not its own, and its bio names the partition"
    );
    assert_eq!(found[0].cut + found[1].cut, 0);
    let exit = &found[1].events[9];
    assert_eq!((exit.cpu, exit.pid), (0, 42));
    assert_eq!(exit.event, "sys_exit_pread64");
    let fields: Vec<_> = exit.fields.iter().map(|(k, v)| (&**k, &**v)).collect();
    assert_eq!(fields, [("nr", "67"), ("ret", "-1")]);
    assert_eq!(
        found[1].events[1].fields[0],
        ("dev".to_owned(), "8:1".to_owned())
    );
}

#[test]
fn an_io_among_others_of_its_task_keeps_to_its_sectors() {
    let lines: &[Line] = &[
        (10, 42, "block_bio_queue", &[DISK, 800, 8]),
        (11, 42, "block_bio_queue", &[DISK, 808, 8]),
        (12, 42, "block_rq_issue", &[DISK, 800, 8]),
        (13, 42, "ufshcd_command", &[1]),
        (14, 42, "block_rq_issue", &[DISK, 808, 8]),
        (15, 42, "ufshcd_command", &[2]),
        (50, 0, "ufshcd_command", &[2]),
        (51, 0, "block_rq_complete", &[DISK, 808, 8]),
        (60, 0, "ufshcd_command", &[1]),
        (61, 0, "block_rq_complete", &[DISK, 800, 8]),
    ];
    let file = trace(lines);
    let one = |first| Wanted {
        sectors: Some(first..=first + 7),
        alone: false,
        ..plain(42, (10, 61))
    };
    let found = io_events(&file.0, &[one(800), one(808)], 100).unwrap();
    assert_eq!(times(&found[0]), [10, 12, 13, 60, 61]);
    assert_eq!(times(&found[1]), [11, 14, 15, 50, 51]);
}

#[test]
fn the_limit_cuts_and_says_so() {
    let file = trace(TWO);
    let found = io_events(&file.0, &[plain(42, (10, 70))], 4).unwrap();
    assert_eq!((times(&found[0]), found[0].cut), (vec![10, 12, 14, 15], 6));
}

#[test]
fn arrays_and_pointers_are_hexadecimal() {
    let file = trace(TWO);
    let found = io_events(&file.0, &[plain(42, (80, 90))], 4).unwrap();
    let shown: Vec<_> = found[0].events[0].fields.iter().map(|f| &*f.1).collect();
    assert_eq!(shown, ["00000000", "0x0"]);
}

#[test]
fn outline_and_json() {
    let file = trace(TWO);
    assert_eq!(outline(&file.0).unwrap().first, Some(5));
    let text = io_events_json(&file.0, &[plain(99, (70, 72))], 5).unwrap();
    assert_eq!(text, r#"[{"cut":0,"events":[]}]"#);
    assert!(io_events("absent.dat", &[], 1).is_err());
}

#[test]
fn calls_are_pairs_of_one_thread() {
    let lines: &[Line] = &[
        (5, 42, "sys_enter_pread64", &[67]),
        (9, 42, "sys_exit_pread64", &[67, 1]),
        (10, 42, "sys_enter_pread64", &[67]),
        (11, 43, "sys_enter_pread64", &[67]),
        (20, 42, "sys_exit_pread64", &[67, 4096]),
        (21, 44, "sys_exit_pread64", &[67, 7]),
        (30, 43, "sys_exit_pread64", &[67, u64::MAX]),
        (31, 42, "sys_enter_pread64", &[67]),
        (40, 42, "sys_exit_pread64", &[67, 1]),
    ];
    let file = trace(lines);
    let call = |pid, start, end, ret| Call {
        op: Op::Pread64,
        pid,
        start,
        end,
        ret,
    };
    assert_eq!(
        calls(&file.0).unwrap(),
        [
            call(42, 5, 9, 1),
            call(42, 10, 20, 4096),
            call(43, 11, 30, -1),
            call(42, 31, 40, 1)
        ]
    );
    assert!(calls("absent.dat").is_err());
}
