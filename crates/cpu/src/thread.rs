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

/// Runs `body` on a thread of its own with `bytes` of stack, and waits for it; a panic in it goes on in the caller.
///
/// For work whose recursion is as deep as untrusted input makes it. The stack is address space, memory only as far as it
/// is used.
///
/// # Errors
/// When the operating system refuses such a thread.
pub fn with_stack<T: Send>(bytes: usize, body: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = Builder::new().name("deep".to_owned()).stack_size(bytes).spawn_scoped(scope, body)?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Runs `aside` on a thread of its own while `here` runs on this one, and returns both results; a panic in either goes on
/// in the caller.
///
/// # Errors
/// When the operating system refuses another thread; then neither has run.
pub fn beside<A: Send, B>(
    name: &str,
    aside: impl FnOnce() -> A + Send,
    here: impl FnOnce() -> B,
) -> io::Result<(A, B)> {
    std::thread::scope(|scope| {
        let thread = Builder::new().name(name.to_owned()).spawn_scoped(scope, aside)?;
        let here = here();
        Ok((thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), here))
    })
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

/// The logical CPUs that a thread may run on.
#[derive(Debug, Clone)]
pub struct Affinity {
    #[cfg(target_os = "linux")]
    cpus: rustix::thread::CpuSet,
}

impl Affinity {
    /// Those of the calling thread; none if the system does not tell.
    pub fn of_caller() -> Option<Affinity> {
        #[cfg(target_os = "linux")]
        {
            rustix::thread::sched_getaffinity(None).ok().map(|cpus| Affinity { cpus })
        }
        #[cfg(not(target_os = "linux"))]
        {
            None
        }
    }

    /// Lets the calling thread run on these again, after [`pin`]; returns whether the system agreed.
    pub fn apply(&self) -> bool {
        #[cfg(target_os = "linux")]
        {
            rustix::thread::sched_setaffinity(None, &self.cpus).is_ok()
        }
        #[cfg(not(target_os = "linux"))]
        {
            false
        }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    #[test]
    fn a_pinned_thread_can_be_let_go() {
        super::with_stack(1 << 20, || {
            let cpus = |affinity: &super::Affinity| affinity.cpus.count();
            let before = super::Affinity::of_caller().expect("the system tells");
            let first = (0..1024).find(|cpu| before.cpus.is_set(*cpu)).expect("a CPU");
            assert!(super::pin(first));
            assert_eq!(super::Affinity::of_caller().map(|now| cpus(&now)), Some(1));
            assert!(before.apply());
            assert_eq!(super::Affinity::of_caller().map(|now| cpus(&now)), Some(cpus(&before)));
        })
        .expect("a thread");
    }

    #[test]
    fn two_results_from_two_threads() {
        let id = || std::thread::current().id();
        let (aside, here) = super::beside("aside", id, id).expect("a thread");
        assert!(aside != here && here == id());
    }

    #[test]
    fn deep_recursion_fits_on_a_deep_stack() {
        fn depth(n: u32) -> u32 {
            let frame = std::hint::black_box([n; 64]);
            if n == 0 { 0 } else { 1 + depth(std::hint::black_box(frame[63] - 1)) }
        }
        assert_eq!(super::with_stack(256 << 20, || depth(100_000)).expect("a thread"), 100_000);
    }
}
