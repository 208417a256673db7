//! Threads by name, and pinning them to a CPU.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread called `name` that runs `body`.
///
/// # Errors
/// When the operating system refuses another thread.
pub fn spawn<T, F>(name: &str, body: F) -> io::Result<JoinHandle<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Builder::new().name(name.to_owned()).spawn(body)
}

/// Keeps the calling thread on logical CPU `cpu`; returns whether the system agreed.
///
/// A refusal is no error: the thread then runs where it did before, only less predictably.
pub fn pin(cpu: usize) -> bool {
    #[cfg(target_os = "linux")]
    {
        if cpu >= rustix::thread::CpuSet::MAX_CPU {
            return false;
        }
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu);
        rustix::thread::sched_setaffinity(None, &set).is_ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = cpu;
        false
    }
}
