//! The memory that this process may use: the machine's memory, or less if a control group limits
//! it.
//!
//! Control groups of version 1 and version 2, which may be mounted side by side, are both read. The
//! limits of the process's group and of all groups above it count, as far as they are visible: a
//! container may see only some of them.

use std::fs;
use std::path::{Path, PathBuf};

use super::limits;
use crate::config::Memory;

/// The files with the limits of a group, in bytes or `max` for no limit: two of version 2, and one
/// of version 1. Above `memory.high` a process is slowed down rather than ended.
const LIMITS: [&str; 3] = ["memory.max", "memory.high", "memory.limit_in_bytes"];

/// The memory that this process may use, if the system tells.
pub(super) fn available() -> Option<Memory> {
    let machine = limits::physical_memory();
    let limited = limit(Path::new("/")).filter(|limit| machine.is_none_or(|whole| *limit < whole));
    let bytes = limited.or(machine)?;
    Some(Memory {
        bytes,
        is_limited: limited.is_some(),
    })
}

/// The smallest limit of the process's control groups, in the system whose root is at this path.
fn limit(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).ok()?;
    let mounts: Vec<CgroupMount> = mounts.lines().filter_map(CgroupMount::parse).collect();
    let limits = groups.lines().filter_map(|line| {
        // NUMBER:CONTROLLERS:PATH, such as `4:cpu,memory:/a/b`; version 2 is `0::/a/b`.
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        mounts
            .iter()
            .filter_map(|mount| mount.limit(root, controllers, Path::new(path)))
            .min()
    });
    limits.min()
}

/// A mounted hierarchy of control groups.
#[derive(Debug)]
struct CgroupMount {
    is_version_2: bool,
    /// The topmost group that is mounted; the groups below it are, too.
    group: PathBuf,
    /// The mount point, relative to the root.
    mount_point: PathBuf,
}

impl CgroupMount {
    /// Parses a line of `/proc/self/mountinfo`, such as `31 23 0:28 / /sys/fs/cgroup rw - cgroup2
    /// cgroup2 rw`; `None` if it is not a hierarchy that limits memory.
    fn parse(line: &str) -> Option<Self> {
        let (mount, system) = line.split_once(" - ")?;
        // Before the dash: id, parent, device, root, mount point; after it: type, source, options.
        let mut mount = mount.split(' ').skip(3);
        let group = mount.next()?.into();
        let mount_point = mount.next()?.trim_start_matches('/').into();
        let mut system = system.split(' ');
        let kind = system.next()?;
        let options = system.nth(1)?;
        let is_version_2 = kind == "cgroup2";
        let is_version_1 = kind == "cgroup" && options.split(',').any(|option| option == "memory");
        (is_version_1 || is_version_2).then_some(Self {
            is_version_2,
            group,
            mount_point,
        })
    }

    /// The smallest limit of the group at a path and of the groups above it; `None` if this is not
    /// the mount of the hierarchy with these controllers.
    fn limit(&self, root: &Path, controllers: &str, path: &Path) -> Option<u64> {
        // Version 2 has one hierarchy, whose controllers are not named.
        let is_this_mount = if self.is_version_2 {
            controllers.is_empty()
        } else {
            controllers.split(',').any(|name| name == "memory")
        };
        if !is_this_mount {
            return None;
        }
        // In a container the path may be the host's; only the mounted group is visible then.
        let below = path.strip_prefix(&self.group).unwrap_or(Path::new(""));
        let mut limits = Vec::new();
        for group in below.ancestors() {
            let folder = root.join(&self.mount_point).join(group);
            for file in LIMITS {
                let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
                limits.extend(text.trim().parse::<u64>());
            }
        }
        limits.into_iter().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION_2_MOUNT: &str =
        "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";
    const UNLIMITED: &str = "9223372036854771712";

    fn limit_of(groups: &str, mounts: &[&str], limits: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        let mounts = format!(
            "22 1 0:5 / / rw - ext4 /dev/vda rw\n{}\n",
            mounts.join("\n")
        );
        for (path, text) in [
            ("proc/self/cgroup", groups),
            ("proc/self/mountinfo", &mounts),
        ]
        .iter()
        .chain(limits)
        {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        limit(root.path())
    }

    #[test]
    fn the_smallest_limit_of_all_groups_above_counts() {
        let of = |limits: &[(&str, &str)]| {
            limit_of("0::/a.slice/b.service/c", &[VERSION_2_MOUNT], limits)
        };
        let (outer, middle) = (
            "sys/fs/cgroup/a.slice/memory.max",
            "sys/fs/cgroup/a.slice/b.service/memory.max",
        );
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(outer, "max"), (middle, "max")]), None);
        assert_eq!(of(&[(outer, "1073741824"), (middle, "max")]), Some(1 << 30));
        assert_eq!(
            of(&[(outer, "1073741824"), (middle, "2147483648")]),
            Some(1 << 30)
        );
        assert_eq!(
            of(&[(outer, "1073741824"), (middle, "536870912")]),
            Some(512 << 20)
        );
        assert_eq!(
            of(&[
                ("sys/fs/cgroup/a.slice/b.service/c/memory.high", "268435456"),
                (outer, "max")
            ]),
            Some(256 << 20)
        );
        assert_eq!(
            of(&[("sys/fs/cgroup/other.slice/memory.max", "4096")]),
            None
        );
    }

    #[test]
    fn a_container_sees_the_mounted_part_only() {
        let top = &[("sys/fs/cgroup/memory.max", "536870912")];
        assert_eq!(limit_of("0::/", &[VERSION_2_MOUNT], top), Some(512 << 20));
        assert_eq!(
            limit_of("0::/docker/1234", &[VERSION_2_MOUNT], top),
            Some(512 << 20)
        );
        let mount = "36 32 0:33 /docker/1234 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory";
        let limits = [
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456"),
            top[0],
        ];
        assert_eq!(
            limit_of("5:memory:/docker/1234\n0::/", &[mount], &limits),
            Some(256 << 20)
        );
        assert_eq!(
            limit_of("5:memory:/docker/1234/inner", &[mount], &limits),
            Some(256 << 20)
        );
    }

    #[test]
    fn both_versions_may_be_mounted() {
        let mounts = [
            "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
            "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd",
            "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw",
        ];
        let groups = "9:name=systemd:/\n4:cpu,memory:/a/b\n1:cpu:/\n0::/";
        let of = |inner: &str| {
            let limits = [
                ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", inner),
                ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1073741824"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", UNLIMITED),
            ];
            limit_of(groups, &mounts, &limits)
        };
        assert_eq!(
            [of(UNLIMITED), of("268435456")],
            [Some(1 << 30), Some(256 << 20)]
        );
        assert_eq!(limit_of("nonsense", &["nonsense - cgroup2"], &[]), None);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(available().unwrap().bytes > 64 << 20);
    }
}
