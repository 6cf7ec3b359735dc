//! A headless Chromium, spoken to by its DevTools protocol over two FIFOs:
//! `--remote-debugging-pipe` reads commands from descriptor 3 and answers on descriptor 4, each a
//! JSON text that a NUL ends.

use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a page may take to become what is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// A browser with one page; it ends with this.
pub struct Browser {
    child: Child,
    commands: File,
    answers: BufReader<File>,
    session: String,
    last: u64,
    folder: PathBuf,
}

impl Browser {
    /// Opens the page in a window of this size; `None` where there is no Chromium.
    pub fn open(folder: &Path, address: &str, (width, height): (u32, u32)) -> Option<Self> {
        let found = Command::new("chromium").arg("--version").output();
        if !found.is_ok_and(|output| output.status.success()) {
            return None;
        }
        let [commands, answers] = ["commands", "answers"].map(|name| folder.join(name));
        let made = Command::new("mkfifo").args([&commands, &answers]).status();
        assert!(made.is_ok_and(|status| status.success()), "no FIFO");
        // A shell, since only it can give a program the descriptors 3 and 4 by name.
        let child = Command::new("sh")
            .args(["-c", "exec chromium \"$@\" 3<\"$COMMANDS\" 4>\"$ANSWERS\"", "sh"])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
            ])
            .args(["--remote-debugging-pipe", "--hide-scrollbars"])
            .arg(format!("--window-size={width},{height}"))
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .env("COMMANDS", &commands)
            .env("ANSWERS", &answers)
            .env("HOME", folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let mut browser = Self {
            child,
            commands: OpenOptions::new().write(true).open(commands).expect("it is read"),
            answers: BufReader::new(File::open(answers).expect("it is written")),
            session: String::new(),
            last: 0,
            folder: folder.to_owned(),
        };
        let page = browser.ask("Target.createTarget", json!({ "url": address }));
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = browser.ask("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().expect("a session").to_owned();
        Some(browser)
    }

    /// The answer to a command; events before it are of no use here.
    pub fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut command = json!({ "id": self.last, "method": method, "params": parameters });
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        write!(self.commands, "{command}\0").expect("the browser reads");
        loop {
            let mut text = Vec::new();
            self.answers
                .read_until(0, &mut text)
                .expect("the browser answers");
            assert_eq!(text.pop(), Some(0), "the browser has ended");
            let answer: Value = serde_json::from_slice(&text).expect("JSON");
            if answer["id"] == self.last {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// The value of an expression in the page; of a promise, what it gives.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.ask("Runtime.evaluate", asked);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until the expression holds in the page.
    pub fn wait_for(&mut self, expression: &str) {
        let begin = Instant::now();
        let asked =
            format!("(() => {{ try {{ return Boolean({expression}) }} catch (_) {{ return false }} }})()");
        while self.evaluate(&asked) != json!(true) {
            assert!(begin.elapsed() < PATIENCE, "the page never has: {expression}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(self.folder.join("profile"));
    }
}
