//! restitch and nginx as proxies of one upstream on loopback, in rounds in turn; README.md explains
//! how to run it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use restitch_peers::proxies::client::{Client, Measured};
use restitch_peers::proxies::party::{Kind, Party, path};
use restitch_peers::proxies::upstream::{Plan, Upstream, element};
use restitch_peers::proxies::{clock, outages};
use restitch_peers::table::{self, short};
use restitch_peers::timing::median;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::task::JoinSet;

/// The streams of the tables with many.
const STREAMS: usize = 200;
/// 20 events a second.
const DISTANCE: Duration = Duration::from_millis(50);

/// The most clients of a table, but that of slow streams.
const CLIENTS: usize = 256;
/// The distance of slow events.
const SLOWLY: Duration = Duration::from_secs(5);
/// The number of slow streams, if the limit of open files allows it.
const SLOW: usize = 8000;
/// The bytes of text before a cut.
const BEFORE_CUT: usize = 134_000;

/// The bytes of a short prompt.
const PROMPT: usize = 100;

/// The values of one party's turn, one for each column.
type Row = Vec<f64>;

/// The load of a table.
enum Load {
    /// Requests with a prompt of this many bytes, one at a time.
    Requests(usize),
    /// Whole answers of this many bytes, one at a time.
    Answers(usize),
    /// Short streams, one at a time.
    First,
    /// Many streams with equal distances between the events.
    Paced,
    /// A few streams without distances.
    Burst,
    /// Streams that are cut late and continued, one at a time.
    Cuts,
    /// Clients that leave in the middle of a stream, one at a time.
    Leaves,
    /// This many streams that are all open.
    Slow(usize),
    /// Many streams whose clients read nothing.
    Unread,
}

fn main() -> io::Result<()> {
    let (mut programs, mut tables, mut rounds, mut minutes) = (Vec::new(), Vec::new(), 5, 0.0);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || {
            arguments
                .next()
                .and_then(|number| number.parse().ok())
                .ok_or_else(usage)
        };
        match argument.as_str() {
            "--rounds" => rounds = number()? as usize,
            "--minutes" => minutes = number()?,
            name if TABLES.contains(&name) => tables.push(argument),
            _ if argument.starts_with('-') => return Err(usage()),
            _ => programs.push(PathBuf::from(argument)),
        }
    }
    if programs.is_empty() {
        return Err(usage());
    }
    // For each stream its client and the upstream have one, and so has the proxy.
    let slow = SLOW.min(open_files().saturating_sub(1000) / 2);
    let is_wanted = |table| tables.is_empty() || tables.iter().any(|wanted| wanted == table);
    let upstream = Upstream::start()?;
    let mut kinds = vec![Kind::Direct];
    let has_nginx = std::env::split_paths(&path()).any(|folder| folder.join("nginx").exists());
    if has_nginx {
        kinds.extend([1, 2].map(|workers| Kind::Nginx { workers }));
    } else {
        println!("skipped: there is no nginx\n");
    }
    for program in &programs {
        kinds.extend([1, 2].map(|threads| Kind::Restitch {
            program: program.clone(),
            threads,
        }));
    }
    let start = |kind| Party::start(kind, upstream.address, CLIENTS);
    let parties = kinds
        .into_iter()
        .map(start)
        .collect::<io::Result<Vec<_>>>()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    if minutes > 0.0 {
        return runtime.block_on(soak(&parties, Duration::from_secs_f64(minutes * 60.0)));
    }
    let loads = [
        ("requests", Load::Requests(64 << 10)),
        ("requests", Load::Requests(1 << 20)),
        ("requests", Load::Requests(10_000_000)),
        ("answers", Load::Answers(1 << 20)),
        ("answers", Load::Answers(10 << 20)),
        ("streams", Load::First),
        ("streams", Load::Paced),
        ("streams", Load::Burst),
        ("cuts", Load::Cuts),
        ("leaves", Load::Leaves),
        ("slow", Load::Slow(slow)),
        ("unread", Load::Unread),
    ];
    for (table, load) in loads {
        if is_wanted(table) {
            runtime.block_on(measure(&load, &parties, &upstream, rounds))?;
        }
    }
    if is_wanted("outages") {
        for program in &programs {
            outages::print(program)?;
        }
    }
    Ok(())
}

/// Raises the limit of open files, for this program and those that it starts, and returns it.
fn open_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // A refusal leaves the old limit.
    let _ = setrlimit(Resource::Nofile, raised);
    getrlimit(Resource::Nofile)
        .current
        .map_or(usize::MAX, |files| files as usize)
}

const TABLES: [&str; 8] = [
    "requests", "answers", "streams", "cuts", "leaves", "slow", "unread", "outages",
];

fn usage() -> io::Error {
    io::Error::other(format!(
        "usage: proxies RESTITCH... [--rounds N] [--minutes M] [TABLE...]; tables: {}",
        TABLES.join(", ")
    ))
}

/// Prints the medians of the rounds.
async fn measure(
    load: &Load,
    parties: &[Party],
    upstream: &Upstream,
    rounds: usize,
) -> io::Result<()> {
    let parties: Vec<_> = parties
        .iter()
        .filter(|party| load.is_for(&party.kind))
        .collect();
    let mut found: Vec<Vec<Row>> = vec![Vec::new(); parties.len()];
    // The first round warms up. New processes need none, and their memory varies little.
    let rounds = if load.is_of_memory() {
        1..=1
    } else {
        0..=rounds
    };
    for round in rounds {
        let mut direct = Row::new();
        for (party, found) in parties.iter().zip(&mut found) {
            let mut row = load
                .turn(party, upstream)
                .await
                .map_err(|error| io::Error::other(format!("{}: {error}", party.kind)))?;
            // A latency is the difference to that without a proxy.
            if direct.is_empty() {
                direct.clone_from(&row);
            } else {
                for (value, direct) in row.iter_mut().zip(&direct).take(load.latencies()) {
                    *value -= direct;
                }
            }
            if round > 0 {
                found.push(row);
            }
        }
    }
    let (title, columns) = load.names();
    let mut rows = vec![
        columns
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>(),
    ];
    let first = if load.latencies() > 0 {
        "latencies: added"
    } else {
        ""
    };
    rows[0].insert(0, first.to_owned());
    for (party, found) in parties.iter().zip(found) {
        let column = |at: usize| median(found.iter().map(|row| row[at]).collect());
        let values = (0..columns.len()).map(|at| short(column(at)));
        rows.push([party.kind.to_string()].into_iter().chain(values).collect());
    }
    table::print(&title, &rows);
    Ok(())
}

impl Load {
    fn names(&self) -> (String, &'static [&'static str]) {
        match self {
            Self::Requests(bytes) => (
                format!("A request of {bytes} bytes"),
                &["first token p50, µs", "CPU, ms", "peak, MiB"],
            ),
            Self::Answers(bytes) => (
                format!("A whole answer of {bytes} bytes"),
                &["first byte p50, µs", "CPU, ms", "peak, MiB"],
            ),
            Self::First => (
                "One stream at a time".to_owned(),
                &["first token p50, µs", "CPU of a stream of 3 events, ms"],
            ),
            Self::Paced => (
                format!("{STREAMS} streams with 20 events/s"),
                &[
                    "event p50, µs",
                    "event p99, µs",
                    "CPU s per million events",
                    "peak, MiB",
                ],
            ),
            Self::Burst => (
                "64 streams without a pause".to_owned(),
                &["CPU s per million events", "elapsed s per million events"],
            ),
            Self::Cuts => (
                format!("A cut after {BEFORE_CUT} bytes of text"),
                &["first new event p50, µs", "p90, µs"],
            ),
            Self::Leaves => (
                "A client that leaves".to_owned(),
                &["end of the upstream call p50, µs", "p90, µs"],
            ),
            Self::Slow(count) => (
                format!("{count} streams with an event every {} s", SLOWLY.as_secs()),
                &["memory of a stream, KiB"],
            ),
            Self::Unread => (
                format!("{STREAMS} clients that read nothing"),
                &["peak, MiB"],
            ),
        }
    }

    /// Returns whether it is put on a party: nginx continues no answer, and a party without a
    /// process has no memory.
    fn is_for(&self, kind: &Kind) -> bool {
        match kind {
            Kind::Direct => !self.is_of_memory(),
            Kind::Nginx { .. } => !matches!(self, Self::Cuts),
            Kind::Restitch { .. } => true,
        }
    }

    fn is_of_memory(&self) -> bool {
        matches!(self, Self::Slow(_) | Self::Unread)
    }

    /// Returns how many of the first columns are latencies.
    fn latencies(&self) -> usize {
        match self {
            Self::Requests(_) | Self::Answers(_) | Self::First => 1,
            Self::Paced | Self::Cuts | Self::Leaves => 2,
            _ => 0,
        }
    }

    async fn turn(&self, party: &Party, upstream: &Upstream) -> io::Result<Row> {
        party.forget_peak();
        let (before, start) = (party.usage(), Instant::now());
        let stream = |events, distance| Plan::Stream { events, distance };
        let address = party.address;
        let mut times = match *self {
            Self::Requests(bytes) => {
                one_by_one(address, repeats(bytes), stream(1, DISTANCE), bytes).await?
            }
            Self::Answers(bytes) => {
                one_by_one(address, repeats(bytes), Plan::Body { bytes }, PROMPT).await?
            }
            Self::First => {
                let plan = stream(3, Duration::from_micros(200));
                one_by_one(address, 1000, plan, PROMPT).await?
            }
            Self::Paced => side_by_side(address, STREAMS, stream(100, DISTANCE)).await?,
            Self::Burst => side_by_side(address, 64, stream(5000, Duration::ZERO)).await?,
            Self::Cuts => cuts(address).await?,
            Self::Leaves => leaves(address, upstream).await?,
            Self::Slow(_) | Self::Unread => return self.memory(party, upstream).await,
        };
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[(times.len() as f64 * share) as usize] / 1e3;
        let (usage, elapsed) = (party.usage(), start.elapsed().as_secs_f64());
        let (cpu, peak) = (usage.cpu - before.cpu, usage.peak / 1048576.0);
        let (each, millions) = (cpu / times.len() as f64 * 1e3, times.len() as f64 / 1e6);
        Ok(match self {
            Self::Requests(_) | Self::Answers(_) => vec![at(0.5), each, peak],
            Self::First => vec![at(0.5), each],
            Self::Paced => vec![at(0.5), at(0.99), cpu / millions, peak],
            Self::Burst => vec![cpu / millions, elapsed / millions],
            _ => vec![at(0.5), at(0.9)],
        })
    }

    /// Opens the streams of a table about memory through a new process: the memory that an older one
    /// has freed would be missing in the result.
    async fn memory(&self, party: &Party, upstream: &Upstream) -> io::Result<Row> {
        let (count, events, distance) = match self {
            Self::Slow(count) => (*count, 20, SLOWLY),
            _ => (STREAMS, 1_000_000, Duration::ZERO),
        };
        let plan = Plan::Stream { events, distance };
        let party = Party::start(party.kind.clone(), upstream.address, count)?;
        let before = party.usage().now;
        let mut clients = Vec::new();
        for _ in 0..count {
            let mut client = Client::new(party.address).await?;
            match self {
                Self::Slow(_) => client.begin(plan, PROMPT).await?,
                _ => drop(client.send(plan, PROMPT).await?),
            }
            clients.push(client);
        }
        // By then a slow stream has had further events, and unread buffers are full.
        tokio::time::sleep(SLOWLY).await;
        let usage = party.usage();
        Ok(match self {
            Self::Slow(_) => vec![(usage.now - before) / 1024.0 / count as f64],
            _ => vec![usage.peak / 1048576.0],
        })
    }
}

/// As many requests as take some seconds.
fn repeats(bytes: usize) -> usize {
    (200_000_000 / bytes).clamp(20, 500)
}

/// Returns the times to the first token or byte.
async fn one_by_one(
    address: SocketAddr,
    count: usize,
    plan: Plan,
    prompt: usize,
) -> io::Result<Vec<f64>> {
    let (mut client, mut measured) = (Client::new(address).await?, Measured::default());
    for _ in 0..count {
        client.ask(plan, prompt, &mut measured).await?;
    }
    Ok(measured.first)
}

/// Returns the times from the last event before a cut to the first one after it.
async fn cuts(address: SocketAddr) -> io::Result<Vec<f64>> {
    let (mut client, mut times) = (Client::new(address).await?, Vec::new());
    let text = element(1, 0).replace('\\', "");
    let events = (BEFORE_CUT / text.len()) as u32;
    for _ in 0..50 {
        let mut measured = Measured::default();
        client
            .ask(Plan::Cut { events }, PROMPT, &mut measured)
            .await?;
        times.extend(measured.events.last());
    }
    Ok(times)
}

/// Returns the times from a client's end to the upstream's notice of it.
async fn leaves(address: SocketAddr, upstream: &Upstream) -> io::Result<Vec<f64>> {
    let plan = Plan::Stream {
        events: 2,
        distance: SLOWLY,
    };
    let mut times = Vec::new();
    for _ in 0..100 {
        let mut client = Client::new(address).await?;
        client.begin(plan, PROMPT).await?;
        tokio::time::sleep(DISTANCE / 5).await;
        // Of other tables.
        while upstream.left.try_recv().is_ok() {}
        let leaves = clock();
        drop(client);
        let left = upstream.left.recv_timeout(SLOWLY);
        times.push((left.map_err(io::Error::other)? - leaves) as f64);
    }
    Ok(times)
}

/// Starts the streams at different phases of the distance, since a bunch of events would be measured
/// as latency. Returns the times of all events but the first ones.
async fn side_by_side(address: SocketAddr, streams: usize, plan: Plan) -> io::Result<Vec<f64>> {
    let mut tasks = JoinSet::new();
    for at in 0..streams {
        tasks.spawn(async move {
            tokio::time::sleep(DISTANCE * 7 * at as u32 / streams as u32).await;
            let mut measured = Measured::default();
            Client::new(address)
                .await?
                .ask(plan, PROMPT, &mut measured)
                .await?;
            Ok::<_, io::Error>(measured.events)
        });
    }
    let mut all = Vec::new();
    while let Some(done) = tasks.join_next().await {
        all.extend(done.map_err(io::Error::other)??);
    }
    Ok(all)
}

/// Loads the last party alone, and prints its memory and CPU time each minute, then the slope of its
/// memory over the second half.
async fn soak(parties: &[Party], length: Duration) -> io::Result<()> {
    let Some(party) = parties.last() else {
        return Ok(());
    };
    let plan = Plan::Stream {
        events: 100,
        distance: DISTANCE,
    };
    println!(
        "### {}: {STREAMS} streams with 20 events/s\n\n| s | memory, MiB | CPU, s | events |\n|---|---|---|---|",
        party.kind
    );
    let (start, mut events, mut samples) = (Instant::now(), 0, Vec::new());
    let mut next = Duration::ZERO;
    while start.elapsed() < length {
        events += side_by_side(party.address, STREAMS, plan).await?.len();
        if start.elapsed() >= next {
            let usage = party.usage();
            let at = start.elapsed().as_secs_f64();
            println!(
                "| {at:.0} | {:.2} | {:.1} | {events} |",
                usage.now / 1048576.0,
                usage.cpu
            );
            samples.push((at, usage.now / 1024.0));
            next += Duration::from_secs(60);
        }
    }
    let half = &samples[samples.len() / 2..];
    if half.len() < 2 {
        println!("\nno slope: it needs three minutes");
        return Ok(());
    }
    let mean = |of: fn(&(f64, f64)) -> f64| half.iter().map(of).sum::<f64>() / half.len() as f64;
    let (x, y) = (mean(|sample| sample.0), mean(|sample| sample.1));
    let rise: f64 = half
        .iter()
        .map(|(at, memory)| (at - x) * (memory - y))
        .sum();
    let run: f64 = half.iter().map(|(at, _)| (at - x) * (at - x)).sum();
    println!(
        "\nslope of the second half: {:.2} KiB a minute",
        rise / run * 60.0
    );
    Ok(())
}
