//! The table of the crates: the dependencies and effects that each may have. A new crate needs a row here.

use crate::effects::Effect;

/// The rules of a crate.
pub struct Rule {
    pub name: &'static str,
    /// Workspace crates that the crate's code uses: exactly these.
    pub depends: &'static [&'static str],
    /// Further workspace crates that only the crate's tests use: exactly these.
    pub tests_depend: &'static [&'static str],
    /// Packages that must not be linked, even indirectly.
    pub never_links: &'static [&'static str],
    /// Effects that the crate's code may have.
    pub effects: &'static [Effect],
}

use Effect::{Clock, Environment, ExitCode, Files, Intrinsics, Sockets, StandardOutput, Threads, Unsafe};

/// Below the HTTP layer: the runtime and its protocols.
const ASYNC: &[&str] = &["tokio", "axum", "hyper"];

pub const RULES: &[Rule] = &[
    Rule {
        name: "cpu",
        depends: &[],
        tests_depend: &[],
        never_links: ASYNC,
        // GRISTMILL_ISA is the one variable it reads.
        effects: &[Clock, Environment, Files, Intrinsics, Threads, Unsafe],
    },
    Rule {
        name: "tensor",
        depends: &[],
        tests_depend: &[],
        never_links: &["libc", "rustix", "tokio"],
        effects: &[],
    },
    Rule { name: "events", depends: &[], tests_depend: &[], never_links: ASYNC, effects: &[] },
    Rule {
        name: "wire",
        depends: &[],
        tests_depend: &[],
        never_links: &["tokio", "axum", "hyper", "libc"],
        effects: &[],
    },
    Rule {
        name: "planner",
        depends: &["residency", "routing"],
        tests_depend: &[],
        never_links: &["tokio", "libc", "rustix"],
        effects: &[],
    },
    Rule {
        name: "residency",
        depends: &[],
        tests_depend: &[],
        never_links: &["tokio", "libc", "rustix"],
        effects: &[],
    },
    Rule {
        name: "kernels",
        depends: &["cpu", "tensor"],
        tests_depend: &[],
        never_links: &["tokio", "axum", "hyper", "ureq", "tracing"],
        effects: &[],
    },
    Rule {
        name: "onnx",
        depends: &["cpu"],
        tests_depend: &[],
        never_links: &["tokio", "axum", "hyper", "ureq", "tracing"],
        effects: &[],
    },
    Rule {
        name: "pipeline",
        depends: &["wire"],
        tests_depend: &[],
        never_links: &["tokio", "axum", "hyper", "libc", "tracing"],
        effects: &[],
    },
    Rule {
        name: "weights",
        depends: &["cpu", "tensor"],
        tests_depend: &[],
        never_links: ASYNC,
        effects: &[Clock, Files],
    },
    Rule {
        name: "text",
        depends: &["cpu", "weights"],
        tests_depend: &[],
        never_links: ASYNC,
        // The clock is for templates that print the date, unless they are given another.
        effects: &[Clock, Files],
    },
    Rule {
        name: "model",
        depends: &["cpu", "kernels", "tensor", "weights"],
        tests_depend: &[],
        never_links: ASYNC,
        effects: &[],
    },
    Rule {
        name: "engine",
        depends: &["cpu", "kernels", "model", "text"],
        tests_depend: &["weights"],
        never_links: ASYNC,
        effects: &[Clock],
    },
    Rule {
        name: "inference",
        depends: &["wire"],
        tests_depend: &[],
        never_links: &["tokio", "axum", "hyper", "engine", "model", "text"],
        effects: &[Clock],
    },
    Rule {
        name: "service",
        depends: &["engine", "events", "inference", "onnx", "pipeline", "residency", "text", "wire"],
        tests_depend: &["cpu", "kernels"],
        never_links: &["axum", "hyper"],
        effects: &[Clock],
    },
    Rule {
        name: "httpd",
        depends: &["events", "inference", "wire"],
        tests_depend: &[],
        never_links: &["service", "engine", "model", "kernels", "weights", "text", "cpu"],
        effects: &[Clock, Sockets],
    },
    Rule {
        name: "server",
        depends: &["events", "httpd", "inference", "job_server", "job_store", "jobs", "service", "wire"],
        tests_depend: &["engine", "text"],
        never_links: &[],
        // It hands a listener on.
        effects: &[Clock, Sockets],
    },
    Rule {
        name: "routing",
        depends: &[],
        tests_depend: &[],
        never_links: &["tokio", "libc", "rustix"],
        effects: &[],
    },
    Rule {
        name: "ledger",
        depends: &[],
        tests_depend: &[],
        never_links: &["axum", "hyper", "engine"],
        effects: &[Files],
    },
    Rule {
        name: "privacy",
        depends: &[],
        tests_depend: &[],
        // `sha2` asks the C library of some systems for the CPU's instructions.
        never_links: &["tokio", "axum", "hyper"],
        effects: &[],
    },
    Rule {
        name: "translation",
        depends: &["wire"],
        tests_depend: &[],
        never_links: &["tokio", "axum", "hyper", "libc"],
        effects: &[],
    },
    Rule {
        name: "gateway",
        depends: &[
            "events",
            "httpd",
            "inference",
            "job_server",
            "job_store",
            "jobs",
            "ledger",
            "privacy",
            "routing",
            "translation",
            "wire",
        ],
        tests_depend: &["fake_provider"],
        never_links: &["service", "engine", "model", "kernels", "weights", "text", "cpu"],
        effects: &[Clock, Files, Sockets],
    },
    Rule {
        name: "jobs",
        depends: &[],
        tests_depend: &[],
        // `sha2` asks the C library of some systems for the CPU's instructions.
        never_links: &["tokio", "axum", "hyper"],
        effects: &[],
    },
    Rule {
        name: "job_store",
        depends: &["jobs"],
        tests_depend: &[],
        never_links: &["axum", "hyper", "engine"],
        effects: &[Files],
    },
    Rule {
        name: "webhooks",
        depends: &["jobs"],
        tests_depend: &[],
        never_links: &["axum", "service", "engine"],
        effects: &[Clock, Sockets],
    },
    Rule {
        name: "job_server",
        depends: &["events", "httpd", "inference", "job_store", "jobs", "webhooks", "wire"],
        tests_depend: &[],
        never_links: &["service", "engine", "model", "kernels", "weights", "text", "cpu"],
        effects: &[Clock],
    },
    Rule {
        name: "batch",
        depends: &["jobs"],
        tests_depend: &[],
        never_links: &["axum", "service", "engine", "model", "kernels", "weights", "text", "cpu"],
        effects: &[Clock, Files],
    },
    Rule {
        name: "fake_provider",
        depends: &[],
        tests_depend: &[],
        // For tests and benchmarks: no crate of the product but by its tests.
        never_links: &["service", "engine", "model", "kernels", "weights", "text", "cpu", "gateway"],
        effects: &[Clock, Sockets],
    },
    Rule {
        name: "cli",
        depends: &[
            "batch",
            "cpu",
            "engine",
            "events",
            "gateway",
            "httpd",
            "inference",
            "job_server",
            "job_store",
            "kernels",
            "ledger",
            "model",
            "pipeline",
            "planner",
            "server",
            "service",
            "tensor",
            "text",
            "webhooks",
            "weights",
            "wire",
        ],
        tests_depend: &[],
        never_links: &[],
        effects: &[Clock, Environment, ExitCode, Files, Sockets, StandardOutput],
    },
];
