//! How many files and sockets the process may have open, against how many connections it is to hold.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors beside connections: standard streams, the listener, the async runtime's, files that are read again, the
/// audit log, the metrics' looks into /proc.
const OTHERS: u64 = 48;

/// Raises the limit as far as connections need and the system lets; where that is not enough, `connections` becomes what
/// there is room for, and what to say about it comes back.
pub(super) fn fit(connections: &mut usize) -> Option<String> {
    let limits = getrlimit(Resource::Nofile);
    // None is no limit.
    let current = limits.current?;
    let wanted = *connections as u64 + OTHERS;
    let mut may = current;
    if current < wanted {
        let raised = limits.maximum.map_or(wanted, |most| most.min(wanted));
        if setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limits.maximum }).is_ok() {
            may = raised;
        }
    }
    let (fits, remark) = check(*connections, may);
    *connections = fits;
    remark
}

/// How many of `connections` there is room for among `may` descriptors.
fn check(connections: usize, may: u64) -> (usize, Option<String>) {
    let room = usize::try_from(may.saturating_sub(OTHERS)).unwrap_or(usize::MAX).max(1);
    if connections <= room {
        return (connections, None);
    }
    let remark = format!(
        "warning: this process may have {may} files and sockets open, which is not enough for --max-connections \
         {connections}: {room} are taken. `ulimit -n {}`, or LimitNOFILE= in a unit, raises the limit",
        connections as u64 + OTHERS
    );
    (room, Some(remark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abuse_a9_a_low_limit_is_said_and_held() {
        assert_eq!(check(1024, 1024 + OTHERS), (1024, None));
        let (room, remark) = check(1024, 256);
        assert_eq!(room, 208);
        let remark = remark.unwrap();
        assert!(remark.contains("256 files") && remark.contains("--max-connections 1024"), "{remark}");
        assert_eq!(check(8, 3).0, 1);
    }
}
