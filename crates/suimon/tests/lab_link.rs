//! `suimon lab [OPTIONS] -- CMD`: real programs behind a link, as an ordinary user.

use lab::published::Published;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const NOBODY: u32 = 65534;
const SUIMON: &str = env!("CARGO_BIN_EXE_suimon");

/// The program where an ordinary user reaches it, and a folder that is theirs.
struct Place {
    files: Published,
    folder: PathBuf,
}

impl Place {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("suimon-link-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("ours");
        let files = Published::new(&[SUIMON]);
        Self { files, folder }
    }

    /// A shell of an ordinary user, who knows the program as `$S`.
    fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).env("S", self.files.path(SUIMON));
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
        command.current_dir(&self.folder).stdin(Stdio::null());
        if fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn run(&self, script: &str) -> Output {
        self.shell(script).output().expect("a shell")
    }

    /// What the script prints; it must succeed.
    fn printed(&self, script: &str) -> String {
        let output = self.run(script);
        assert!(output.status.success(), "{script}: {}", told(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn told(output: &Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .concat()
}

fn is_here(program: &str) -> bool {
    let found = ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"]
        .iter()
        .any(|folder| Path::new(folder).join(program).exists());
    if !found {
        skips::skipped(format_args!("there is no {program}"));
    }
    found
}

/// The least round trip that ping printed, in milliseconds, and how many packets came back.
fn pinged(text: &str) -> (f64, u32) {
    let round = text
        .lines()
        .find_map(|line| line.split_once(" = ")?.1.split('/').next());
    let received = text
        .lines()
        .find_map(|line| line.split(", ").nth(1)?.split(' ').next());
    let least = round
        .and_then(|least| least.parse().ok())
        .unwrap_or_else(|| panic!("{text}"));
    (
        least,
        received
            .and_then(|n| n.parse().ok())
            .unwrap_or_else(|| panic!("{text}")),
    )
}

#[test]
fn the_commands_exit_code_and_signals_are_its_own() {
    let place = Place::new("code");
    let code = |script: &str| place.run(script).status.code();
    assert_eq!(code("$S lab -- sh -c 'exit 7'"), Some(7));
    assert_eq!(code("$S lab -- $S lab -- sh -c 'exit 42'"), Some(42));
    assert_eq!(code("$S lab -- sh -c 'kill -TERM $$'"), Some(128 + 15));
    assert_eq!(code("$S lab -- no-such-program"), Some(127));
    assert_eq!(code("$S lab -- /etc/passwd"), Some(126));
    // Through two labs, to a program that has its own way to end.
    let script = "$S lab -- $S lab -- sh -c 'trap \"echo told; exit 9\" TERM; echo ready > ready; while :; do sleep 0.02; done'";
    let mut command = place.shell(&format!("exec {script}"));
    let child = command.stdout(Stdio::piped()).spawn().expect("a shell");
    let until = Instant::now() + Duration::from_secs(20);
    while !place.folder.join("ready").exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    let kill = format!("kill -TERM {}", child.id());
    assert!(
        Command::new("sh")
            .args(["-c", &kill])
            .status()
            .expect("kill")
            .success()
    );
    let output = child.wait_with_output().expect("our child");
    assert_eq!(
        (output.status.code(), &output.stdout[..]),
        (Some(9), &b"told\n"[..])
    );
}

#[test]
fn delays_of_links_within_links_add_up_and_every_packet_takes_them() {
    if !is_here("ping") {
        return;
    }
    let place = Place::new("delay");
    let ping = "ping -c 5 -i 0.2 -W 5";
    let alone = place.printed(&format!("$S lab --delay 20ms -- sh -c '{ping} $SUIMON_OUTSIDE'"));
    let (least, received) = pinged(&alone);
    assert!((40.0..60.0).contains(&least) && received == 5, "{alone}");
    let within = place.printed(&format!(
        "$S lab --delay 20ms -- $S lab --delay 30ms -- {ping} 100.64.0.1"
    ));
    let (least, received) = pinged(&within);
    assert!((100.0..125.0).contains(&least) && received == 5, "{within}");
}

#[test]
fn what_is_lost_is_lost_in_both_directions() {
    if !is_here("ping") {
        return;
    }
    let place = Place::new("loss");
    let script = "$S lab --loss 20% -- ping -c 60 -i 0.02 -W 1 -q 100.64.0.1";
    let (_, received) = pinged(&place.printed(script));
    // 64 % come back: of 60, 38, with a standard deviation of 3.7.
    assert!((24..=53).contains(&received), "{received}");
    let none = pinged(&place.printed("$S lab -- ping -c 60 -i 0.02 -W 1 -q 100.64.0.1"));
    assert_eq!(none.1, 60);
}

#[test]
fn listed_packets_are_lost_and_no_others() {
    if !is_here("ping") {
        return;
    }
    let place = Place::new("listed");
    let text = place.printed("$S lab --loss 'packets 2, 4-5' -- ping -c 6 -i 0.05 -W 1 100.64.0.1");
    let came: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once("icmp_seq=")?.1.split(' ').next())
        .collect();
    // 2, 4 and 5 are lost on their way there; of the three replies the second is, which is to 3.
    assert_eq!(came, ["1", "6"], "{text}");
}

/// Of requests the second is lost, the fourth comes twice and the sixth with a wrong checksum; of
/// answers, which are of 1, 3, 4, 4 and 5, too.
#[test]
fn a_script_befalls_the_packets_that_it_names_in_each_direction() {
    if !is_here("ping") {
        return;
    }
    let place = Place::new("script");
    let script = "drop 2; duplicate 4; corrupt 6";
    let text = place.printed(&format!(
        "$S lab --script '{script}' -- ping -c 6 -i 0.1 -W 1 100.64.0.1"
    ));
    let expected = "6 packets transmitted, 3 received, +2 duplicates";
    assert!(text.contains(expected), "{text}");
    for (number, times) in [(1, 1), (2, 0), (3, 0), (4, 3), (5, 1), (6, 0)] {
        let of = format!("icmp_seq={number} ");
        assert_eq!(text.matches(&of).count(), times, "{number}: {text}");
    }
}

#[test]
fn a_trace_begins_with_the_command_and_changes_the_link_in_its_time() {
    if !is_here("ping") {
        return;
    }
    let place = Place::new("trace");
    let csv = "time (s),rate (Mbit/s),delay (ms)\n0,10,20\n2,10,120\n60,10,120\n";
    fs::write(place.folder.join("down.csv"), csv).expect("a file");
    fs::write(place.folder.join("wrong.csv"), "time,rate\n0 s,10\n").expect("a file");
    let ping = "ping -c 1 -W 5 100.64.0.1";
    let script = format!("$S lab --trace down=down.csv --up 5Mbit/s -- sh -c '{ping}; sleep 2; {ping}'");
    let text = place.printed(&script);
    let (first, second) = text.split_at(text.rfind("PING").expect("two pings"));
    assert!((20.0..60.0).contains(&pinged(first).0), "{text}");
    assert!((120.0..160.0).contains(&pinged(second).0), "{text}");
    for (options, why) in [
        ("--trace wrong.csv", "line 2: `10`: the unit is missing"),
        ("--trace gone.csv", "cannot read `gone.csv`"),
        (
            "--trace down.csv --rate 5Mbit/s",
            "leave out one of --trace and --rate",
        ),
        (
            "--trace up=down.csv --up 5Mbit/s",
            "leave out one of --trace and --up",
        ),
        ("--trace down.csv --trace up=down.csv", "up has two courses"),
    ] {
        let refused = place.run(&format!("$S lab {options} -- true"));
        assert_eq!(refused.status.code(), Some(2), "{options}: {}", told(&refused));
        assert!(told(&refused).contains(why), "{options}: {}", told(&refused));
    }
}

#[test]
fn labs_side_by_side_in_a_lab_have_addresses_of_their_own() {
    if !is_here("ping") {
        return;
    }
    let place = Place::new("siblings");
    let script = "$S lab -- sh -c 'for n in 1 2 3 4; do \
        $S lab --delay 1ms -- sh -c \"ping -c 1 -W 5 100.64.0.1 >/dev/null && echo \\$SUIMON_OUTSIDE && sleep 1\" & done; wait'";
    let text = place.printed(script);
    let mut addresses: Vec<&str> = text.lines().collect();
    addresses.sort_unstable();
    assert_eq!(
        addresses,
        ["100.68.0.1", "100.72.0.1", "100.76.0.1", "100.80.0.1"]
    );
}

#[test]
fn a_download_keeps_to_rate_and_policy_and_the_report_tells_of_it() {
    if !is_here("curl") || !is_here("python3") {
        return;
    }
    let place = Place::new("rate");
    fs::write(place.folder.join("file"), vec![0; 300_000]).expect("a file");
    let policy = "version = 1\n[interface.eth0]\nbandwidth = \"2 Mbit/s\"\ndiscipline = \"fifo\"\n";
    fs::write(place.folder.join("policy.toml"), policy).expect("a file");
    let bytes_per_second = |options: &str| -> f64 {
        let fetch = "curl -s -o /dev/null --retry 20 --retry-connrefused --retry-delay 0 -w '%{speed_download}' \
                     http://\"$SUIMON_OUTSIDE\":8000/file";
        fs::write(place.folder.join("fetch"), fetch).expect("a file");
        let script = format!(
            "$S lab -- sh -c 'python3 -m http.server 8000 >/dev/null 2>&1 & {} {options} -- sh fetch'",
            "sleep 0.3; $S lab"
        );
        let text = place.printed(&script);
        text.trim().parse().unwrap_or_else(|_| panic!("{text}"))
    };
    let limited = |rate: f64| (rate * 0.7 / 8.0)..(rate / 8.0);
    let speed = bytes_per_second("--rate 4Mbit/s --up 1Mbit/s --report page");
    assert!(limited(4e6).contains(&speed), "{speed} B/s");
    let speed = bytes_per_second("--rate 4Mbit/s --policy down=policy.toml");
    assert!(limited(2e6).contains(&speed), "{speed} B/s");
    let read = |name: &str| fs::read_to_string(place.folder.join("page").join(name)).expect("a report");
    let page = read("index.html");
    for expected in ["sh fetch", "exit code 0", "4Mbit/s", "<svg"] {
        assert!(page.contains(expected), "{expected} is missing in the page");
    }
    let sent: f64 = read("down.csv")
        .lines()
        .filter_map(|line| line.rsplit(',').next()?.parse::<f64>().ok())
        .sum();
    // In bins of 100 ms: the file, and headers.
    assert!((300e3..345e3).contains(&(sent / 80.0)), "{} bytes", sent / 80.0);
    let (up, down) = (read("up.csv"), read("down.csv"));
    assert!(up.lines().count() > 3 && up != down, "{up}");
}

#[test]
fn mistakes_in_options_are_told_with_what_is_possible() {
    let place = Place::new("mistakes");
    for (options, expected) in [
        ("--rate 5 -- true", "`rate`"),
        ("--rate 1bit/s -- true", "`rate` must be from 8 kbit/s"),
        ("--loss 150% -- true", "\"0.1 % in bursts of 5\""),
        ("--delay 2h -- true", "`delay`"),
        ("--policy no-such-file -- true", "there is no file `no-such-file`"),
        ("--link dls -- true", "[possible values: dsl,"),
        (
            "--script 'swap 1, 3' -- true",
            "two packets that follow each other",
        ),
        ("--jitter 'normal 5ms' -- true", "normal 10 ms, deviation 2 ms"),
        ("--trace 'model 6g' -- true", "there is no model `6g`"),
        ("--rate 5Mbit/s", "Write `-- CMD` at the end"),
        ("", "Write `-- CMD` at the end"),
        ("file.toml --rate 5Mbit/s", "cannot be used with"),
        ("--in a -- true", "FILE"),
    ] {
        let output = place.run(&format!("$S lab {options}"));
        assert_eq!(output.status.code(), Some(2), "{options}: {}", told(&output));
        assert!(told(&output).contains(expected), "{options}: {}", told(&output));
    }
    let output = place.run("touch taken; $S lab --report taken -- touch began");
    assert!(
        told(&output).contains("cannot write `taken`"),
        "{}",
        told(&output)
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(
        !place.folder.join("began").exists(),
        "what cannot be kept is told first"
    );
    let output = place.run("PATH=/nowhere; $S lab --internet -- true");
    assert!(
        told(&output).contains("apt install slirp4netns"),
        "{}",
        told(&output)
    );
    assert_eq!(output.status.code(), Some(1));
    let preset = place.run("$S lab --link geo -- true");
    let stands_for = "--link geo is --down 19.3Mbit/s --up 2.54Mbit/s --delay 372ms";
    assert!(told(&preset).contains(stands_for), "{}", told(&preset));
    let preset = place.run("$S lab --link 5g -- true");
    let stands_for = "--link 5g is --trace \"down=model 5g\" --trace \"up=model 5g, at 20%\"";
    assert!(told(&preset).contains(stands_for), "{}", told(&preset));
    assert!(preset.status.success(), "{}", told(&preset));
}

#[test]
fn an_option_that_would_do_nothing_is_refused() {
    let place = Place::new("idle-options");
    let scenario = "version = 1\nduration = \"1 s\"\nlink = [{ between = [\"a\", \"b\"], rate = \"1 Mbit/s\" }]\n\
                    flow = [{ between = [\"a\", \"b\"], kind = \"tcp\" }]\n";
    fs::write(place.folder.join("scenario.toml"), scenario).expect("writable");
    let topology = "version = 1\nhosts = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"b\"]\n";
    fs::write(place.folder.join("topology.toml"), topology).expect("writable");
    let mut refused = vec![
        ("--rate 5Mbit/s --json -- true".to_owned(), "cannot be used with"),
        (
            "--rate 5Mbit/s --in a -- true".to_owned(),
            "only `inside` is behind",
        ),
        ("--seed 7 scenario.toml".to_owned(), "write `seed` in it"),
        ("--json topology.toml -- true".to_owned(), "cannot be used with"),
    ];
    for option in [
        "--report report",
        "--policy policy.toml",
        "--script 'drop 1'",
        "--listen 0:inside:80",
        "--internet",
        "--loss 1%",
        "--link lte",
        "--trace 'model 5g'",
    ] {
        for file in ["scenario.toml", "topology.toml -- true"] {
            refused.push((format!("{option} {file}"), "cannot be used with"));
        }
    }
    for (options, expected) in refused {
        let output = place.run(&format!("$S lab {options}"));
        assert_eq!(output.status.code(), Some(2), "{options}: {}", told(&output));
        assert!(told(&output).contains(expected), "{options}: {}", told(&output));
    }
    let output = place.run("$S lab --seed 7 topology.toml -- true");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
}

#[test]
fn nothing_is_left_of_labs_within_labs_that_are_killed() {
    let place = Place::new("killed");
    let mark = format!("8647.{}", std::process::id());
    let running = || {
        let entries = fs::read_dir("/proc").expect("a proc file system");
        let lines = entries.filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
        lines
            .filter(|line| String::from_utf8_lossy(line).contains(&mark))
            .count()
    };
    let script = format!("exec $S lab -- $S lab --rate 1Mbit/s -- sh -c 'sleep {mark} & wait'");
    let mut child = place.shell(&script).spawn().expect("a shell");
    let until = Instant::now() + Duration::from_secs(20);
    // Two labs of three processes each, the shell, and its child.
    while running() < 8 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(running() >= 8, "{}", running());
    child.kill().expect("our child");
    child.wait().expect("our child");
    while running() > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(running(), 0, "they still run");
}

#[test]
fn a_killed_lab_leaves_no_interface_in_the_lab_around_it_and_its_place_is_free() {
    if !is_here("ping") {
        return;
    }
    let place = Place::new("gone");
    let script = "$S lab -- sh -c '$S lab -- sleep 600 & inner=$!; \
        until grep -q lab0 /proc/net/dev; do sleep 0.02; done; kill -KILL $inner; \
        until ! grep -q lab0 /proc/net/dev; do sleep 0.02; done; \
        $S lab -- sh -c \"ping -c 1 -W 5 100.64.0.1 && echo from \\$SUIMON_OUTSIDE\"'";
    let text = place.printed(&format!("timeout 30 {script}"));
    assert!(text.contains("from 100.68.0.1"), "{text}");
}

#[test]
fn the_way_out_leads_to_this_computers_own_servers_and_ends_with_the_lab() {
    let tun = fs::File::options().read(true).write(true).open("/dev/net/tun");
    if !is_here("slirp4netns") || !is_here("curl") || !is_here("python3") {
        return;
    }
    if tun.is_err() {
        return skips::skipped("/dev/net/tun cannot be opened");
    }
    let place = Place::new("internet");
    fs::write(place.folder.join("file"), "from outside\n").expect("a file");
    fs::write(place.folder.join("log"), "").expect("a file");
    // As whoever runs the test: who else may open /dev/net/tun depends on the system.
    let run = |script: &str| {
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .current_dir(&place.folder)
            .env("S", SUIMON);
        command.stdin(Stdio::null()).output().expect("a shell")
    };
    let output = run(
        "python3 -u -m http.server 0 --bind 127.0.0.1 > log 2>/dev/null & server=$!; \
         until port=$(sed -n 's/.* port \\([0-9]*\\).*/\\1/p' log) && [ -n \"$port\" ]; do sleep 0.05; done; export port; \
         $S lab --internet --delay 5ms -- $S lab -- sh -c 'cat /etc/resolv.conf; curl -sS -m 20 http://$SUIMON_COMPUTER:$port/file'; \
         code=$?; kill $server; exit $code",
    );
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(told(&output), "nameserver 10.0.2.3\nfrom outside\n");
    let within = run("$S lab -- $S lab --internet -- true");
    assert_eq!(within.status.code(), Some(2));
    assert!(
        told(&within).contains("belongs to the outermost"),
        "{}",
        told(&within)
    );
}

/// The port of each relay that the program says it has, in their order.
fn relays(err: &mut impl BufRead, count: usize) -> Vec<u16> {
    let mut ports = Vec::new();
    let mut said = String::new();
    while ports.len() < count && err.read_line(&mut said).expect("text") > 0 {
        let line = said.lines().next_back().unwrap_or_default();
        let port = line
            .strip_prefix("suimon: 127.0.0.1:")
            .and_then(|rest| rest.split(' ').next());
        ports.extend(port.and_then(|port| port.parse::<u16>().ok()));
    }
    assert_eq!(ports.len(), count, "{said}");
    ports
}

/// Answers each connection by what it received, backwards, once the client has ended its half.
fn backwards(server: TcpListener) {
    for client in server.incoming() {
        let mut client = client.expect("a client");
        std::thread::spawn(move || {
            let mut all = Vec::new();
            client.read_to_end(&mut all).expect("all of it");
            all.reverse();
            client.write_all(&all).expect("an answer");
        });
    }
}

/// What the server answers to this, and how long that took.
fn answered(port: u16, asked: &[u8]) -> (Vec<u8>, Duration) {
    let begin = Instant::now();
    let mut client = TcpStream::connect(("127.0.0.1", port)).expect("a relay");
    client.write_all(asked).expect("asked");
    client.shutdown(Shutdown::Write).expect("all is asked");
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).expect("an answer");
    (answer, begin.elapsed())
}

#[test]
fn a_port_leads_through_the_link_to_a_server_outside() {
    let place = Place::new("listen");
    let server = TcpListener::bind("127.0.0.1:0").expect("a server");
    let port = server.local_addr().expect("its address").port();
    std::thread::spawn(|| backwards(server));
    // Nobody listens here: it is bound and closed.
    let closed = TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("it")
        .port();
    let script = format!(
        "exec $S lab --delay 30ms --down 20Mbit/s --listen 0:localhost:{port} --listen 0:127.0.0.1:{closed}"
    );
    let mut child = place
        .shell(&script)
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut err = BufReader::new(child.stderr.take().expect("a pipe"));
    let ports = relays(&mut err, 2);
    // A connection over the link, and the way of what is asked and answered: two round trips.
    let (answer, took) = answered(ports[0], b"pots");
    assert_eq!(answer, b"stop");
    assert!(took >= Duration::from_millis(120), "{took:?}");
    // Each way whole, several at a time, and at the link's rate: 2 MB are 16 Mbit.
    let long: Vec<u8> = (0..500_000u32).map(|at| (at ^ at >> 8) as u8).collect();
    let begin = Instant::now();
    let clients = [0, 1, 2, 3].map(|_| {
        let (long, port) = (long.clone(), ports[0]);
        std::thread::spawn(move || answered(port, &long).0)
    });
    let back: Vec<u8> = long.iter().rev().copied().collect();
    for client in clients {
        assert!(client.join().expect("a client") == back, "it differs");
    }
    let took = begin.elapsed();
    assert!(
        took >= Duration::from_millis(700),
        "{took:?} for 16 Mbit at 20 Mbit/s"
    );
    // A server that refuses ends the client's connection, and no other.
    assert_eq!(answered(ports[1], b"").0, b"");
    assert_eq!(answered(ports[0], b"on").0, b"no");
    child.kill().expect("killing it");
    child.wait().expect("its end");
    let until = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(("127.0.0.1", ports[0])).is_ok() {
        assert!(Instant::now() < until, "the port is open after a kill");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_port_leads_through_the_link_to_a_server_behind_it() {
    if !is_here("python3") {
        return;
    }
    let place = Place::new("listen-inside");
    let server = "import socket\ns = socket.create_server(('', 8000))\nopen('ready', 'w')\n\
                  while True:\n c = s.accept()[0]\n c.sendall(c.recv(100).upper())\n c.close()";
    fs::write(place.folder.join("server.py"), server).expect("a server");
    let script = "exec $S lab --delay 30ms --listen 0:inside:8000 -- python3 server.py";
    let mut child = place
        .shell(script)
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut err = BufReader::new(child.stderr.take().expect("a pipe"));
    let ports = relays(&mut err, 1);
    let until = Instant::now() + Duration::from_secs(20);
    while !place.folder.join("ready").exists() {
        assert!(Instant::now() < until, "no server");
        std::thread::sleep(Duration::from_millis(10));
    }
    let (answer, took) = answered(ports[0], b"loud");
    assert_eq!(answer, b"LOUD");
    assert!(took >= Duration::from_millis(120), "{took:?}");
    child.kill().expect("killing it");
    child.wait().expect("its end");
}

#[test]
fn a_port_that_is_taken_or_leads_nowhere_is_refused() {
    let place = Place::new("listen-refused");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().map(|at| (at.port(), taken)).expect("it");
    for (option, code, why) in [
        (format!("{}:localhost:1", taken.0), 1, "choose another port"),
        (
            "0:no-such-host.invalid:1".to_owned(),
            1,
            "relay to no-such-host.invalid:1",
        ),
        ("5433:db".to_owned(), 2, "PORT:HOST:PORT"),
    ] {
        let output = place.run(&format!("$S lab --listen {option}"));
        assert_eq!(output.status.code(), Some(code), "{}", told(&output));
        assert!(told(&output).contains(why), "{}", told(&output));
    }
}
