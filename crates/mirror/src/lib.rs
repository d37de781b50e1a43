//! A Debian mirror on this machine's loopback, for tests: one package, and the faults that mirrors have while they are
//! updated.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use sha2::{Digest, Sha256};

/// The package that the mirror has.
pub const PACKAGE: &str = "spica-test-package";
const ARCHITECTURE: &str = "armhf";

/// How the list of packages does not fit the index.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// It is longer.
    Size,
    /// It has other bytes.
    Bytes,
    /// It is not there, as on a server without this architecture.
    Missing,
}

/// See the module's text. It serves for as long as the process runs.
#[derive(Debug)]
pub struct Mirror {
    port: u16,
    served: Arc<AtomicUsize>,
}

impl Mirror {
    /// A mirror that serves its list with these faults, one after the other, and then as it should be.
    pub fn start(faults: &[Fault]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = Arc::new(AtomicUsize::new(0));
        let (count, faults) = (Arc::clone(&served), faults.to_vec());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Whoever goes away before the answer asks again.
                let _ = answer(stream, &faults, &count);
            }
        });
        Self { port, served }
    }

    /// The source, as a stanza of a deb822 file.
    pub fn source(&self) -> String {
        format!("Types: deb\nURIs: http://127.0.0.1:{}\nSuites: test\nComponents: main\nTrusted: yes\n", self.port)
    }

    /// How often the list was served.
    pub fn served(&self) -> usize {
        self.served.load(Ordering::SeqCst)
    }
}

fn list() -> String {
    format!(
        "Package: {PACKAGE}\nVersion: 1\nArchitecture: {ARCHITECTURE}\nMaintainer: Nobody <nobody@example.org>\n\
         Filename: package.deb\nSize: 1\nSHA256: {:064}\nDescription: none\n",
        0
    )
}

fn answer(mut stream: TcpStream, faults: &[Fault], served: &AtomicUsize) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let list = list();
    let name = format!("main/binary-{ARCHITECTURE}/Packages");
    let path = request.split(' ').nth(1).unwrap_or_default();
    let body = if path.ends_with("/dists/test/Release") {
        let sum: String = Sha256::digest(&list).iter().map(|byte| format!("{byte:02x}")).collect();
        Some(format!(
            "Origin: test\nSuite: test\nCodename: test\nDate: Thu, 01 Jan 2026 00:00:00 UTC\n\
             Architectures: {ARCHITECTURE}\nComponents: main\nSHA256:\n {sum} {} {name}\n",
            list.len()
        ))
    } else if path.ends_with(&name) {
        match faults.get(served.fetch_add(1, Ordering::SeqCst)) {
            None => Some(list),
            Some(Fault::Size) => Some(list + "\n"),
            Some(Fault::Bytes) => Some(list.replace("Nobody", "Anyone")),
            Some(Fault::Missing) => None,
        }
    } else {
        None
    };
    let status = if body.is_some() { "200 OK" } else { "404 Not Found" };
    let body = body.unwrap_or_default();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}
