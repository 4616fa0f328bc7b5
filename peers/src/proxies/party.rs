//! The processes that are measured.

use std::fmt;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// What a party is.
#[derive(Clone, Debug)]
pub enum Kind {
    /// No proxy.
    Direct,
    /// nginx, which keeps connections to the upstream, forwards each chunk immediately, and
    /// keeps bodies in memory.
    Nginx { workers: u32 },
    /// restitch with its defaults but the number of threads.
    Restitch { program: PathBuf, threads: u32 },
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct => f.write_str("no proxy"),
            Self::Nginx { workers } => write!(f, "nginx, {}", count(*workers, "worker")),
            Self::Restitch { program, threads } => {
                write!(f, "{}, {}", program.display(), count(*threads, "thread"))
            }
        }
    }
}

/// A proxy, or none, between the clients and the upstream.
pub struct Party {
    /// What runs.
    pub kind: Kind,
    /// Where its clients connect to.
    pub address: SocketAddr,
    process: Option<Process>,
    folder: Option<PathBuf>,
}

impl Party {
    /// Starts the party. `clients`: the most that connect at the same time.
    pub fn start(kind: Kind, upstream: SocketAddr, clients: usize) -> io::Result<Self> {
        match kind {
            Kind::Direct => Ok(Self {
                kind,
                address: upstream,
                process: None,
                folder: None,
            }),
            Kind::Nginx { workers } => Self::nginx(workers, upstream, clients),
            Kind::Restitch {
                ref program,
                threads,
            } => {
                let mut command = proxy(program, upstream);
                command.args(["--set", &format!("proxy.threads={threads}")]);
                command.args([
                    format!("--set=limits.max_connections={}", clients.max(CONNECTIONS)),
                    format!("--set=limits.max_connections_per_client={clients}"),
                ]);
                let (process, address) = Process::listening(&mut command)?;
                Ok(Self {
                    kind,
                    address,
                    process: Some(process),
                    folder: None,
                })
            }
        }
    }

    fn nginx(workers: u32, upstream: SocketAddr, clients: usize) -> io::Result<Self> {
        let address = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let folder = std::env::temp_dir().join(format!(
            "restitch-peers-{}-{}",
            std::process::id(),
            address.port()
        ));
        fs::create_dir_all(&folder)?;
        let file = folder.join("nginx.conf");
        // Each client has a connection to the upstream, and all may be one worker's.
        let connections = (2 * clients + 64).max(CONNECTIONS);
        fs::write(
            &file,
            format!(
                "worker_processes {workers}; daemon off; pid {folder}/pid; error_log stderr;\n\
                 events {{ worker_connections {connections}; }}\n\
                 http {{ access_log off; client_max_body_size 64m; client_body_buffer_size 16m;\n\
                 client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;\n\
                 uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; keepalive_requests 1000000;\n\
                 upstream model {{ server {upstream}; keepalive 512; }}\n\
                 server {{ listen {address}; location / {{ proxy_pass http://model; proxy_http_version 1.1;\n\
                 proxy_set_header connection \"\"; proxy_buffering off; }} }} }}\n",
                folder = folder.display()
            ),
        )?;
        let mut command = Command::new("nginx");
        command.env("PATH", path()).arg("-c").arg(&file);
        let process = Process(command.stderr(Stdio::null()).spawn()?);
        let party = Self {
            kind: Kind::Nginx { workers },
            address,
            process: Some(process),
            folder: Some(folder),
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(address).is_err() {
            if Instant::now() > deadline {
                return Err(io::Error::other("nginx does not listen"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(party)
    }

    /// Returns the CPU seconds of its processes, and the most memory that they have had since
    /// `forget_peak`, in bytes.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for process in self.processes() {
            let file = |name: &str| {
                fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default()
            };
            // The fields after the name, which may have spaces: the 12th and 13th are ticks.
            let stat = file("stat");
            let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
            let ticks: f64 = fields
                .skip(11)
                .take(2)
                .filter_map(|field| field.parse::<f64>().ok())
                .sum();
            usage.cpu += ticks / rustix::param::clock_ticks_per_second() as f64;
            let status = file("status");
            let kibibytes = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name))?;
                line.split_whitespace().next()?.parse::<f64>().ok()
            };
            usage.peak += kibibytes("VmHWM:").unwrap_or(0.0) * 1024.0;
            usage.now += kibibytes("VmRSS:").unwrap_or(0.0) * 1024.0;
        }
        usage
    }

    /// Resets the peak.
    pub fn forget_peak(&self) {
        for process in self.processes() {
            // Without the right to it the peak is that of the whole run.
            let _ = fs::write(format!("/proc/{process}/clear_refs"), "5");
        }
    }

    fn processes(&self) -> Vec<u32> {
        let Some(parent) = self.process.as_ref().map(|process| process.0.id()) else {
            return Vec::new();
        };
        let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
        let children = children.unwrap_or_default();
        let children = children.split_whitespace().filter_map(|id| id.parse().ok());
        children.chain([parent]).collect()
    }
}

/// The kernel's figures of a proxy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Seconds.
    pub cpu: f64,
    /// Bytes.
    pub peak: f64,
    /// Bytes.
    pub now: f64,
}

impl Drop for Party {
    fn drop(&mut self) {
        self.process = None;
        if let Some(folder) = &self.folder {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// Returns the command of a proxy on a free port.
pub fn proxy(program: &Path, upstream: SocketAddr) -> Command {
    let mut command = Command::new(program);
    command.args(["proxy", "--listen", "127.0.0.1:0", "--upstream"]);
    command.arg(format!("http://{upstream}"));
    command
}

/// A server. It ends when this is dropped.
pub struct Process(Child);

impl Process {
    /// Starts restitch, and returns the address that the first line of its log names.
    pub fn listening(command: &mut Command) -> io::Result<(Self, SocketAddr)> {
        let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = Self(command.spawn()?);
        let log = process.0.stderr.take();
        let mut log = BufReader::new(log.ok_or(io::ErrorKind::BrokenPipe)?);
        let mut line = String::new();
        log.read_line(&mut line)?;
        let address = line
            .split_once("http://")
            .and_then(|(_, rest)| rest.split([',', '/', '\n']).next()?.parse().ok())
            .ok_or_else(|| io::Error::other(line.clone()))?;
        // Its log needs a reader: a full pipe would stop it.
        std::thread::spawn(move || io::copy(&mut log, &mut io::sink()));
        Ok((process, address))
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        // A process that has ended stays until it is waited for.
        let _ = kill_process(Pid::from_child(&self.0), signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nginx's parent ends its workers on a signal only.
        self.signal(Signal::TERM);
        // One that is stopped sees no signal before.
        self.signal(Signal::CONT);
        let _ = self.0.wait();
    }
}

/// The connections of restitch by default, and of nginx.
const CONNECTIONS: usize = 4096;

fn count(number: u32, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

/// The search path, with the folder in which Linux distributions put servers.
pub fn path() -> String {
    format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default())
}
