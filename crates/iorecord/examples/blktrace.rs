//! The sections of every bio of a blktrace run, summed up:
//! `cargo run --release --example blktrace -- NAME`. With `events` behind the name it only reads and
//! translates.
use iorecord::{BlktraceEvents, Item, NOT_TOLD_APART, Section};
use iosections::{Engine, IoResult, Options, Sink, Tasks};

struct Everyone;

impl Tasks for Everyone {
    fn selected(&self, _pid: i32) -> bool {
        true
    }

    fn helps(&self, _pid: i32) -> bool {
        true
    }
}

#[derive(Default)]
struct Sum {
    ios: u64,
    sections: [u64; 5],
}

impl Sink for Sum {
    fn take(&mut self, io: &IoResult) {
        self.ios += 1;
        for (sum, elapsed) in self.sections.iter_mut().zip(io.elapsed) {
            *sum += elapsed;
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: blktrace NAME [events]")?;
    let items = BlktraceEvents::open(path)?;
    if args.next().as_deref() == Some("events") {
        let events = items.filter(|item| matches!(item, Ok(Item::Event(_))));
        println!("events {}", events.count());
        return Ok(());
    }
    let options = Options {
        bios_are_ios: true,
        ..Options::default()
    };
    let mut engine = Engine::new(options, Everyone, Sum::default());
    for item in items {
        match item? {
            Item::Event(event) => engine.push(&event),
            Item::Lost(gap) => engine.gap(gap.cpu, gap.range),
        }
    }
    let (_, sum, _) = engine.finish();
    println!("I/Os {} ({NOT_TOLD_APART})", sum.ios);
    for section in [Section::Submission, Section::Hardware] {
        let total = sum.sections.get(section as usize).copied().unwrap_or(0);
        println!("{section:?}: {} ns on average", total / sum.ios.max(1));
    }
    Ok(())
}
