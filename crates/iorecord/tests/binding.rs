//! Events of old and new kernels, partitions, names and gaps, in synthetic files.
#![allow(missing_docs, clippy::unwrap_used, clippy::pedantic)]

#[path = "../../tracedat/tests/common/mod.rs"]
mod common;

use common::{Item, Page, Shape, file_with};
use iorecord::{Analysis, DeviceMark, DeviceOutcome, MarkCounts, Request, Unit};
use tracedat::{Endian, Trace};

const DISK: u64 = 8 << 20;
const PARTITION: u64 = DISK + 1;

/// A field: (declaration, size, signed).
type Field = (&'static str, usize, bool);

/// An event: (system, name, fields).
type Event = (&'static str, &'static str, &'static [Field]);

const SECTORS: &[Field] = &[
    ("dev_t dev", 4, false),
    ("sector_t sector", 8, false),
    ("unsigned int nr_sector", 4, false),
    ("char rwbs[8]", 8, false),
];
const REMAP: &[Field] = &[
    ("dev_t dev", 4, false),
    ("sector_t sector", 8, false),
    ("unsigned int nr_sector", 4, false),
    ("dev_t old_dev", 4, false),
];
const SWITCH: &[Field] = &[
    ("char prev_comm[16]", 16, false),
    ("long prev_state", 8, true),
    ("char next_comm[16]", 16, false),
    ("pid_t next_pid", 4, true),
];
const EVENTS: &[Event] = &[
    ("syscalls", "sys_enter_pread64", &[("int nr", 4, true)]),
    (
        "syscalls",
        "sys_exit_pread64",
        &[("int nr", 4, true), ("long ret", 8, true)],
    ),
    ("block", "block_bio_queue", SECTORS),
    ("block", "block_rq_issue", SECTORS),
    ("block", "block_rq_complete", SECTORS),
    ("block", "block_bio_remap", REMAP),
    ("ufs", "ufshcd_command", &[]),
    ("irq", "irq_handler_entry", &[("int irq", 4, true)]),
    ("irq", "irq_handler_exit", &[("int irq", 4, true)]),
    ("sched", "sched_switch", SWITCH),
    (
        "nvme",
        "nvme_setup_cmd",
        &[
            ("char disk[8]", 8, false),
            ("int qid", 4, true),
            ("u16 cid", 2, false),
        ],
    ),
    (
        "nvme",
        "nvme_complete_rq",
        &[
            ("char disk[8]", 8, false),
            ("int qid", 4, true),
            ("u16 cid", 2, false),
        ],
    ),
    (
        "iotoll",
        "queue_rqs_return",
        &[("unsigned long __probe_func", 8, false)],
    ),
];

/// `ufshcd_command` with a string (4.14 to 5.4), or with a number (5.15 on).
const UFS_TEXT: &[Field] = &[
    ("__data_loc char[] str", 4, false),
    ("unsigned int tag", 4, false),
];
const UFS_NUMBER: &[Field] = &[
    ("enum ufs_trace_str_t str_t", 4, false),
    ("unsigned int tag", 4, false),
];

struct Writer {
    shape: Shape,
    ufs: &'static [Field],
    print: &'static str,
    items: Vec<Item>,
    last: u64,
}

impl Writer {
    fn new(shape: Shape) -> Self {
        let print =
            "__print_symbolic(REC->str_t, {4, \"send_req\"}, {9, \"complete_rsp\"}), REC->tag";
        Self {
            shape,
            ufs: UFS_NUMBER,
            print,
            items: Vec::new(),
            last: 0,
        }
    }

    fn fields(&self, event: &Event) -> &'static [Field] {
        if event.0 == "ufs" { self.ufs } else { event.2 }
    }

    fn formats(&self) -> Vec<(&'static str, String)> {
        let text = |(id, event): (usize, &Event)| {
            let mut text = format!("name: {}\nID: {}\nformat:\n", event.1, id + 10);
            let common = [
                ("unsigned short common_type", 2, false),
                ("int common_pid", 4, true),
            ];
            let mut at = 0;
            for (declaration, size, signed) in common.iter().chain(self.fields(event)) {
                text += &format!(
                    "\tfield:{declaration};\toffset:{at};\tsize:{size};\tsigned:{};\n",
                    u8::from(*signed)
                );
                at += size;
            }
            (event.0, text + "\nprint fmt: \"\", " + self.print + "\n")
        };
        EVENTS.iter().enumerate().map(text).collect()
    }

    /// Adds an event; strings fill their field or follow the record.
    fn add(&mut self, ts: u64, pid: u64, name: &str, values: &[Value]) -> &mut Self {
        let id = EVENTS.iter().position(|e| e.1 == name).unwrap();
        let fields = self.fields(&EVENTS[id]);
        let mut record = self.shape.int(id as u64 + 10, 2);
        record.extend(self.shape.int(pid, 4));
        let end = 6 + fields.iter().map(|f| f.1).sum::<usize>();
        let mut tail = Vec::new();
        for (field, value) in fields.iter().zip(values) {
            match value {
                Value::Int(n) => record.extend(self.shape.int(*n, field.1)),
                Value::Text(text) if field.0.starts_with("__data_loc") => {
                    let place = ((text.len() + 1) << 16) + end + tail.len();
                    record.extend(self.shape.int(place as u64, 4));
                    tail.extend(text.bytes().chain([0]));
                }
                Value::Text(text) => {
                    let mut bytes = text.as_bytes().to_vec();
                    bytes.resize(field.1, 0);
                    record.extend(bytes);
                }
            }
        }
        record.extend(tail);
        self.items.push(Item::Event(ts - self.last, record));
        self.last = ts;
        self
    }

    fn sectors(&mut self, ts: u64, pid: u64, name: &str, dev: u64, sector: u64) -> &mut Self {
        self.add(
            ts,
            pid,
            name,
            &[
                Value::Int(dev),
                Value::Int(sector),
                Value::Int(8),
                Value::Text("R"),
            ],
        )
    }

    fn pages(&self, missed: Option<Option<u64>>) -> Vec<Page> {
        vec![Page {
            ts: 0,
            missed,
            items: self.items.clone(),
        }]
    }

    fn analysis(&self, request: &Request) -> Analysis {
        self.analysis_of(vec![(0, self.pages(None))], request)
    }

    fn analysis_of(&self, cpus: Vec<(u32, Vec<Page>)>, request: &Request) -> Analysis {
        let bytes = file_with(&self.shape, &self.formats(), &cpus);
        Analysis::of(
            Trace::from_bytes(bytes).unwrap(),
            &Request {
                keep_ios: true,
                ..request.clone()
            },
        )
        .unwrap()
    }
}

enum Value {
    Int(u64),
    Text(&'static str),
}
use Value::{Int, Text};

/// What was seen of the device with most bios.
fn on_device(analysis: &Analysis) -> DeviceOutcome {
    let dev = analysis.device.unwrap();
    analysis.outcome.device(dev).unwrap().clone()
}

type Marks = Vec<(&'static str, u64)>;

/// Marks of the hand-over and of the interrupt.
fn marks(analysis: &Analysis) -> (Marks, Marks) {
    let device = on_device(analysis);
    let named = |counts: MarkCounts| counts.iter().map(|(m, n)| (m.name(), n)).collect();
    (named(device.device_marks), named(device.interrupt_marks))
}

const WIDE: Shape = Shape {
    page_size: 4096,
    ..Shape::PLAIN
};

/// One read: 0, bio 10, issue 20, send 25, interrupt 60, driver's end 63, end 70, exit 90.
fn ufs_read(writer: &mut Writer, send: Value, complete: Value) {
    writer
        .add(0, 42, "sys_enter_pread64", &[Int(67)])
        .sectors(10, 42, "block_bio_queue", DISK, 800)
        .sectors(20, 42, "block_rq_issue", DISK, 800)
        .add(25, 42, "ufshcd_command", &[send, Int(5)])
        .add(60, 0, "irq_handler_entry", &[Int(3)])
        .add(63, 0, "ufshcd_command", &[complete, Int(5)])
        .sectors(70, 0, "block_rq_complete", DISK, 800)
        .add(75, 0, "irq_handler_exit", &[Int(3)])
        .add(90, 42, "sys_exit_pread64", &[Int(67), Int(4096)]);
}

const ELAPSED: [u64; 5] = [10, 15, 35, 10, 20];

#[test]
fn ufs_of_old_and_new_kernels_of_any_machine() {
    for shape in Shape::all().into_iter().filter(|s| s.page_size == 4096) {
        let mut writer = Writer::new(shape);
        ufs_read(&mut writer, Int(4), Int(9));
        let new = writer.analysis(&Request::default());
        let mut writer = Writer {
            ufs: UFS_TEXT,
            ..Writer::new(shape)
        };
        ufs_read(&mut writer, Text("send"), Text("complete"));
        let old = writer.analysis(&Request::default());
        assert_eq!(old.outcome, new.outcome, "{shape:?}");
        assert_eq!(new.ios[0].elapsed, ELAPSED);
        assert_eq!(new.ios[0].bytes, 4096);
        assert_eq!(marks(&new).0, [("ufshcd_command", 1)]);
    }
}

#[test]
fn queries_and_numbers_without_names_are_told_apart() {
    let mut writer = Writer {
        print: "REC->tag",
        ..Writer::new(WIDE)
    };
    ufs_read(&mut writer, Int(0), Int(1));
    assert_eq!(
        on_device(&writer.analysis(&Request::default())).drivers[0],
        1
    );
    let mut writer = Writer {
        ufs: UFS_TEXT,
        ..Writer::new(WIDE)
    };
    ufs_read(&mut writer, Text("query_send"), Text("dev_complete"));
    let analysis = writer.analysis(&Request::default());
    assert_eq!(on_device(&analysis).drivers, [0; 4]);
    assert_eq!(marks(&analysis).0, [("block_rq_issue", 1)]);
}

#[test]
fn a_partition_stands_for_its_disk() {
    for with_remap in [true, false] {
        let mut writer = Writer::new(WIDE);
        writer.add(0, 42, "sys_enter_pread64", &[Int(67)]);
        if with_remap {
            writer.add(
                5,
                42,
                "block_bio_remap",
                &[Int(DISK), Int(900), Int(8), Int(PARTITION)],
            );
        }
        writer
            .sectors(10, 42, "block_bio_queue", PARTITION, 900)
            .sectors(20, 42, "block_rq_issue", DISK, 900)
            .sectors(70, 42, "block_rq_complete", DISK, 900)
            .add(90, 42, "sys_exit_pread64", &[Int(67), Int(4096)]);
        for device in [None, Some("8:0"), Some("8:1")] {
            let device = device.map(str::to_owned);
            let request = Request {
                device,
                ..Request::default()
            };
            assert_eq!(
                writer.analysis(&request).ios[0].elapsed,
                [10, 10, 50, 0, 20]
            );
        }
    }
}

#[test]
fn nvme_generations_do_not_hide_a_tag() {
    let mut writer = Writer::new(WIDE);
    writer
        .add(0, 42, "sys_enter_pread64", &[Int(67)])
        .sectors(10, 42, "block_bio_queue", DISK, 800)
        .add(
            15,
            42,
            "nvme_setup_cmd",
            &[Text("nvme0n1"), Int(1), Int(0x7005)],
        )
        .sectors(20, 42, "block_rq_issue", DISK, 800)
        .add(30, 42, "queue_rqs_return", &[Int(0)])
        .add(
            63,
            0,
            "nvme_complete_rq",
            &[Text("nvme0n1"), Int(1), Int(5)],
        )
        .sectors(70, 0, "block_rq_complete", DISK, 800)
        .add(90, 42, "sys_exit_pread64", &[Int(67), Int(4096)]);
    let analysis = writer.analysis(&Request::default());
    assert_eq!(analysis.ios[0].elapsed, [10, 20, 33, 7, 20]);
    let expected = ([("queue_rq_return", 1)], [("nvme_complete_rq", 1)]);
    assert_eq!(marks(&analysis), (expected.0.to_vec(), expected.1.to_vec()));
    let request = Request {
        device_mark: DeviceMark::LastBefore,
        ..Request::default()
    };
    assert_eq!(
        writer.analysis(&request).ios[0].elapsed,
        [10, 10, 43, 7, 20]
    );
}

#[test]
fn names_come_from_the_list_or_from_the_switches() {
    let mut writer = Writer::new(WIDE);
    let comms = [Text("swapper/0"), Int(0), Text("late"), Int(43)];
    writer
        .add(0, 0, "sched_switch", &comms)
        .add(1, 43, "sys_enter_pread64", &[Int(67)])
        .sectors(10, 43, "block_bio_queue", DISK, 800)
        .sectors(20, 43, "block_rq_issue", DISK, 800)
        .sectors(70, 43, "block_rq_complete", DISK, 800)
        .add(90, 43, "sys_exit_pread64", &[Int(67), Int(4096)]);
    for (comm, ios) in [(None, 1), (Some("late"), 1), (Some("fio"), 0)] {
        let request = Request {
            comm: comm.map(str::to_owned),
            ..Request::default()
        };
        assert_eq!(writer.analysis(&request).ios.len(), ios);
    }
}

#[test]
fn a_gap_on_any_cpu_drops_the_ios_that_it_touches() {
    let mut writer = Writer::new(WIDE);
    ufs_read(&mut writer, Int(4), Int(9));
    let mut other = Writer::new(WIDE);
    other.add(40, 0, "irq_handler_entry", &[Int(1)]);
    let mut gap = Page {
        ts: 50,
        ..other.pages(Some(Some(3)))[0].clone()
    };
    gap.items.truncate(0);
    gap.items.push(Item::Event(0, WIDE.int(99, 8)));
    let mut pages = other.pages(None);
    pages.push(gap);
    let analysis = writer.analysis_of(
        vec![(0, writer.pages(None)), (1, pages)],
        &Request::default(),
    );
    assert_eq!(
        (analysis.outcome.ios.seen, analysis.outcome.ios.dropped_lost),
        (1, 1)
    );
    let info = analysis.info().unwrap();
    // Three in the gap, and the nine that the file's statistics name.
    assert!(
        info.contains("\"lost_events\":12") && info.contains("\"lost_ranges\":1"),
        "{info}"
    );
    assert!(info.contains("\"event_99\":1"), "{info}");
}

#[test]
fn a_trace_without_anything_gives_an_empty_record() {
    for shape in [
        WIDE,
        Shape {
            version: 6,
            endian: Endian::Big,
            ..WIDE
        },
    ] {
        let bytes = file_with(&shape, &[], &[]);
        let analysis =
            Analysis::of(Trace::from_bytes(bytes).unwrap(), &Request::default()).unwrap();
        let record = analysis.record(Unit::Instructions).unwrap();
        assert!(record.contains("\"elapsed\":{\"count\":0}"));
        assert!(record.contains("\"unit\":\"instructions\""));
    }
}
