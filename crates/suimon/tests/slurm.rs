//! The recipe for Slurm in docs/scenarios.md, run as it stands there by Slurm's own daemons:
//! munged, slurmctld and slurmd in namespaces of the test's own, which end with it. The merge is
//! byte for byte that of a single run.

#[allow(dead_code, reason = "other tests use more of it")]
#[path = "stubs/directory.rs"]
mod directory;

use directory::TestDirectory;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// As Debian's packages name them: slurm-wlm and munge.
const DAEMONS: [&str; 5] = ["munged", "slurmctld", "slurmd", "sbatch", "scontrol"];

/// Points of which each takes a moment.
const SWEEP: &str = r#"
version = 1
duration = "500 ms"
link = [{ between = ["a", "b"], rate = "{rate}", delay = "2 ms", loss = "{loss}" }]
flow = [{ name = "tcp", between = ["a", "b"], kind = "tcp", count = "{flows}" }]
expect = [{ flow = "tcp", metric = "rate", at_least = "1 kbit/s" }]
[sweep]
rate = ["5 Mbit/s", "10 Mbit/s", "20 Mbit/s"]
flows = [1, 3]
loss = ["0 %", "1 %"]
"#;

/// A cluster of one node, and what is asked of it. It is the first process of its namespace of
/// processes: as it ends, so do the daemons. `/run` and `/etc/hosts` are its own.
const CLUSTER: &str = r#"
set -e
ip link set lo up
# Names resolve only where there is an address beside 127.0.0.1 (AI_ADDRCONFIG).
ip address add 10.0.0.1/32 dev lo
hostname node
mount -t tmpfs none /run
mkdir -m 755 /run/munge /run/slurm /run/slurm/state /run/slurm/spool
printf '127.0.0.1 localhost\n10.0.0.1 node\n' > /run/slurm/hosts
mount --bind /run/slurm/hosts /etc/hosts
head -c 1024 /dev/urandom > /run/slurm/munge.key
chmod 400 /run/slurm/munge.key
cat > /run/slurm/slurm.conf <<END
ClusterName=suimon
SlurmctldHost=node
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CryptoType=crypto/munge
StateSaveLocation=/run/slurm/state
SlurmdSpoolDir=/run/slurm/spool
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmctldLogFile=/run/slurm/slurmctld.log
SlurmdLogFile=/run/slurm/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SlurmdParameters=config_overrides
NodeName=node NodeAddr=10.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=node Default=YES MaxTime=INFINITE State=UP
END
export SLURM_CONF=/run/slurm/slurm.conf PATH="$PATH:/usr/sbin:/sbin"
tell() { cat /run/slurm/*.log >&2; }
munged --foreground --force --key-file /run/slurm/munge.key --socket /run/munge/munge.socket.2 \
    --pid-file /run/munge/munged.pid --seed-file /run/slurm/munge.seed > /run/slurm/munged.log 2>&1 &
until [ -S /run/munge/munge.socket.2 ]; do sleep 0.1; done
slurmctld -D > /dev/null 2>&1 &
slurmd -D -N node > /dev/null 2>&1 &
tries=0
until scontrol show node node 2>/dev/null | grep -q 'State=IDLE'; do
    tries=$((tries + 1))
    if [ $tries -gt 300 ]; then echo 'the node does not become idle' >&2; tell; exit 1; fi
    sleep 0.1
done
sh -e -c "$RECIPE" || { tell; exit 1; }
"#;

fn is_there(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/sbin"]);
    folders
        .into_iter()
        .any(|folder| Path::new(folder).join(program).exists())
}

#[test]
fn slurms_daemons_run_the_shards_as_the_page_says() {
    let missing: Vec<&str> = DAEMONS.into_iter().filter(|program| !is_there(program)).collect();
    if !missing.is_empty() {
        skips::skipped(format!(
            "Slurm is not installed: there is no {}",
            missing.join(", no ")
        ));
        return;
    }
    let root = Command::new("id").arg("-u").output().expect("id");
    if root.stdout != b"0\n" {
        skips::skipped("Slurm's daemons want root for namespaces of their own");
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenarios.md");
    let page = fs::read_to_string(page).expect("the page");
    let (_, recipe) = page.split_once("```sh\nsbatch ").expect("the recipe");
    let (lines, _) = recipe.split_once("```").expect("its end");
    let place = TestDirectory::new("slurm");
    let scenario = place.write("sweep.toml", SWEEP);
    let program = Path::new(env!("CARGO_BIN_EXE_suimon"));
    let path = std::env::var("PATH").expect("a path");
    let folder = program.parent().expect("a folder").display();
    // Whatever hangs is ended, and told.
    let run = Command::new("timeout")
        .args(["-k", "5", "300", "unshare"])
        .args([
            "--mount",
            "--net",
            "--pid",
            "--uts",
            "--ipc",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ])
        .args(["sh", "-c", CLUSTER])
        .env("RECIPE", format!("sbatch {lines}"))
        .env("PATH", format!("{folder}:{path}"))
        .current_dir(&place.0)
        .stdin(Stdio::null())
        .output()
        .expect("unshare");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    let merged = fs::read_to_string(place.0.join("sweep.json")).expect("the merged lines");
    let whole = Command::new(program).args(["sim", "--json", &scenario]).output();
    let whole = whole.expect("suimon starts");
    assert_eq!(merged, String::from_utf8_lossy(&whole.stdout));
    assert_eq!(merged.lines().count(), 12);
    let parts = (1..=8).filter(|part| place.0.join(format!("part-{part}.json")).exists());
    assert_eq!(parts.count(), 8, "each task wrote its own: {said}");
}
