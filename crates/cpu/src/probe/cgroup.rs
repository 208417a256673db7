//! Control groups: what share of the CPUs and of the memory this process may use.
//!
//! A limit anywhere between the process's group and the root of its hierarchy holds, so every ancestor is read and the
//! least taken. Version 1 (a hierarchy a controller), version 2 (one hierarchy) and machines with both are read.
//! Formats: the kernel's `Documentation/admin-guide/cgroup-v1/` and `cgroup-v2.rst`, and proc(5) for `mountinfo`.

use super::root::{Root, id_list};

/// What the control groups say; `None` and empty where they say nothing.
#[derive(Debug, Default)]
pub(super) struct Limits {
    /// The least quota in CPUs, and its file.
    pub(super) quota: Option<(f64, String)>,
    /// The least memory limit in bytes, and its file.
    pub(super) memory: Option<(u64, String)>,
    /// The least room left below a memory limit, in bytes, with file pages counted as free.
    pub(super) memory_left: Option<u64>,
    /// The CPUs the cpuset allows.
    pub(super) cpuset: Option<Vec<usize>>,
}

/// Reads every limit on the process that `/proc/self` is.
pub(super) fn read(root: &Root) -> Limits {
    let mut limits = Limits::default();
    let membership = root.read("/proc/self/cgroup").unwrap_or_default();
    let lines = root.read_lines("/proc/self/mountinfo", |line| line.contains(" - cgroup"));
    let mounts = mounts(&lines.unwrap_or_default());
    for mount in &mounts {
        let Some(path) = path_in(mount, &membership) else { continue };
        let levels = levels(mount, path);
        if mount.has("cpu") {
            levels.iter().for_each(|level| limits.cpu(root, level, mount.version));
        }
        if mount.has("memory") {
            levels.iter().for_each(|level| limits.memory(root, level, mount.version));
        }
        if mount.has("cpuset") {
            limits.cpus(root, &levels, mount.version);
        }
    }
    limits
}

/// A mounted control group hierarchy.
#[derive(Debug, PartialEq)]
struct Mount {
    version: Version,
    /// The group that the mount point shows, as seen from the hierarchy's root.
    shows: String,
    point: String,
    /// Version 1: its controllers. Version 2 has all that are enabled.
    controllers: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Version {
    One,
    Two,
}

impl Mount {
    fn has(&self, controller: &str) -> bool {
        self.version == Version::Two || self.controllers.iter().any(|name| name == controller)
    }
}

/// `ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAGS…] - TYPE SOURCE SUPER_OPTIONS`, a line a mount.
fn mounts(mountinfo: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let (front, back) = line.split_once(" - ")?;
        let mut front = front.split(' ').skip(3);
        let (shows, point) = (front.next()?, front.next()?);
        let mut back = back.split(' ');
        let version = match back.next()? {
            "cgroup" => Version::One,
            "cgroup2" => Version::Two,
            _ => return None,
        };
        let controllers = back.nth(1).unwrap_or_default().split(',').map(str::to_owned).collect();
        Some(Mount { version, shows: unescape(shows), point: unescape(point), controllers })
    };
    mountinfo.lines().filter_map(mount).collect()
}

/// mountinfo writes space, tab, newline and backslash as `\040`, `\011`, `\012`, `\134`.
fn unescape(field: &str) -> String {
    field.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

/// This process's group in the mount's hierarchy, from the lines `ID:CONTROLLERS:PATH` of `/proc/self/cgroup`.
fn path_in<'a>(mount: &Mount, membership: &'a str) -> Option<&'a str> {
    membership.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let ours = match mount.version {
            Version::Two => id == "0" && controllers.is_empty(),
            Version::One => {
                !controllers.is_empty()
                    && controllers.split(',').any(|name| mount.controllers.iter().any(|own| own == name))
            }
        };
        ours.then_some(path)
    })
}

/// The directories of the group and of its ancestors that the mount shows, innermost first.
fn levels(mount: &Mount, path: &str) -> Vec<String> {
    // Inside a cgroup namespace the path may lead out of the mount (`/../x`), or name a group that the mount does not
    // show; then the mount point is the nearest ancestor there is.
    let below = if mount.shows == "/" { Some(path) } else { path.strip_prefix(mount.shows.as_str()) };
    let below = below.filter(|rest| (rest.is_empty() || rest.starts_with('/')) && !rest.contains("/.."));
    let point = mount.point.trim_end_matches('/');
    let mut rest = below.unwrap_or("").trim_matches('/');
    let mut levels = Vec::new();
    while !rest.is_empty() {
        levels.push(format!("{point}/{rest}"));
        rest = rest.rsplit_once('/').map_or("", |(parent, _)| parent);
    }
    levels.push(point.to_owned());
    levels
}

impl Limits {
    fn cpu(&mut self, root: &Root, level: &str, version: Version) {
        let (file, quota) = match version {
            Version::One => {
                let file = format!("{level}/cpu.cfs_quota_us");
                let quota = root.read(&file).and_then(|text| text.parse::<f64>().ok());
                (file, quota.zip(root.number(&format!("{level}/cpu.cfs_period_us")).map(|us| us as f64)))
            }
            Version::Two => {
                let file = format!("{level}/cpu.max");
                let text = root.read(&file).unwrap_or_default();
                let pair = text.split_once(' ').and_then(|(q, p)| Some((q.parse().ok()?, p.parse().ok()?)));
                (file, pair)
            }
        };
        // -1 (version 1) and `max` (version 2, not a number) mean no quota.
        let Some((quota, period)) = quota.filter(|&(quota, period)| quota > 0.0 && period > 0.0) else {
            return;
        };
        let cpus = quota / period;
        if self.quota.as_ref().is_none_or(|&(least, _)| cpus < least) {
            self.quota = Some((cpus, file));
        }
    }

    fn memory(&mut self, root: &Root, level: &str, version: Version) {
        let (files, usage, reclaimable): (&[&str], _, [&str; 2]) = match version {
            Version::One => (
                &["memory.limit_in_bytes"],
                "memory.usage_in_bytes",
                ["total_active_file", "total_inactive_file"],
            ),
            // Past memory.high the kernel stalls the process to reclaim, which a server cannot live with either.
            Version::Two => {
                (&["memory.max", "memory.high"], "memory.current", ["active_file", "inactive_file"])
            }
        };
        let stat = root.read(&format!("{level}/memory.stat")).unwrap_or_default();
        let stat = |key: &str| {
            stat.lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
        };
        // Version 1 tells the least limit of the ancestors, those included that the mount does not show.
        let inherited = if version == Version::One { stat("hierarchical_memory_limit") } else { None };
        let own = files.iter().filter_map(|name| {
            let file = format!("{level}/{name}");
            Some((root.number(&file)?, file))
        });
        let inherited =
            inherited.map(|bytes| (bytes, format!("{level}/memory.stat hierarchical_memory_limit")));
        let Some((bytes, file)) = own.chain(inherited).min_by_key(|&(bytes, _)| bytes) else { return };
        if let Some(used) = root.number(&format!("{level}/{usage}")) {
            let file_pages: u64 = reclaimable.iter().filter_map(|key| stat(key)).sum();
            let left = bytes.saturating_sub(used.saturating_sub(file_pages));
            self.memory_left = Some(self.memory_left.map_or(left, |least| least.min(left)));
        }
        if self.memory.as_ref().is_none_or(|&(least, _)| bytes < least) {
            self.memory = Some((bytes, file));
        }
    }

    /// The innermost group that tells its effective CPUs; they are already cut down by the ancestors.
    fn cpus(&mut self, root: &Root, levels: &[String], version: Version) {
        let names: &[&str] = match version {
            Version::One => &["cpuset.effective_cpus", "cpuset.cpus"],
            Version::Two => &["cpuset.cpus.effective"],
        };
        let files = levels.iter().flat_map(|level| names.iter().map(move |name| format!("{level}/{name}")));
        let cpus =
            files.filter_map(|file| root.read(&file)).map(|text| id_list(&text)).find(|ids| !ids.is_empty());
        self.cpuset = self.cpuset.take().or(cpus);
    }
}
