#!/usr/bin/env python3
"""One cap, three replicas of the gateway with one PostgreSQL: is it ever exceeded, and what happens when all is down?

    cargo build --release -p fake_provider --bin fake-provider
    python3 tools/gateway/budget.py cap --gristmill target/release/gristmill --fake target/release/fake-provider
    python3 tools/gateway/budget.py outage --gristmill … --fake …            # ten minutes and two more
    python3 tools/gateway/budget.py outage --how freeze --gristmill … --fake …

A PostgreSQL server of its own (Debian's `postgresql-15`; as root it runs as the user `postgres`), `fake-provider` as a
commercial API and as an own machine, and three processes of `gristmill gateway` run on loopback.

*cap*: 1,000 clients at once, a third at each replica, want an answer of a paid model and ask again where the budget
refuses them. A fifth of them leaves in the middle of a stream; the API cuts one answer in ten after billing it whole,
leaves out the usage of one in twenty, and fails one in twenty. In every second round a replica is killed (-9) in the
middle. Checked are the store, ten times a second, and the API's own invoice: neither may exceed the cap by anything.

*outage*: the store and the API go down together (`kill`: both die; `freeze`: both hang) while own machines and the paid
model are asked. Checked: every request to the own machine is answered; the resident memory of each replica does not grow
once as many receipts wait for the store as are kept (at 20 requests a second after eight minutes; with `--own-per-s 45`
after three); and after the outage the store has every token that clients were told of.

Standard library only (Python 3.11 or later). Prints figures; exit code 1 if a check fails.
"""

import argparse
import asyncio
import collections
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

PRICE = {"input": "0.15", "output": "0.60"}
SCRIPT = """
tokens = 40
gap_ms = 10
price = { input = 150_000, output = 600_000 }
"""
FAULTS = """
[[fault]]
kind = "cut"
after_tokens = 20
billed = true
when = { probability = 0.1 }
[[fault]]
kind = "no_usage"
when = { probability = 0.05 }
[[fault]]
kind = "status"
status = 500
when = { probability = 0.05 }
"""
MEBI = 1 << 20
# Receipts that wait for the store at most; further ones are dropped and counted.
RECEIPTS = 8192


class Postgres:
    """A server of its own, killed and removed at the end."""

    def __init__(self, programs, port):
        self.programs, self.port, self.process = Path(programs), port, None
        self.folder = Path(tempfile.mkdtemp(prefix="gateway-pg-"))
        self.user = dict(user="postgres", group="postgres") if os.getuid() == 0 else {}
        if self.user:
            shutil.chown(self.folder, "postgres", "postgres")
        words = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "-D", self.folder / "data"]
        subprocess.run([self.programs / "initdb", *words], check=True, stdout=subprocess.DEVNULL, cwd="/", **self.user)
        self.start()

    def start(self):
        words = ["-D", self.folder / "data", "-p", str(self.port), "-k", self.folder, "-c", "listen_addresses=127.0.0.1"]
        log = open(self.folder / "log", "a")
        self.process = subprocess.Popen([self.programs / "postgres", *words], stdout=log, stderr=log, cwd="/", **self.user)
        for _ in range(200):
            if self.ask("SELECT 1", "postgres", check=False) == [["1"]]:
                return
            time.sleep(0.1)
        raise SystemExit(f"PostgreSQL does not start:\n{(self.folder / 'log').read_text()[-1000:]}")

    def words(self, database):
        return f"host=127.0.0.1 port={self.port} user=postgres dbname={database}"

    def ask(self, query, database, check=True):
        done = subprocess.run([self.programs / "psql", "-Atc", query, self.words(database)], capture_output=True, text=True)
        if check and done.returncode:
            raise SystemExit(done.stderr)
        return [line.split("|") for line in done.stdout.splitlines()]

    def signal(self, what):
        """To the server and its processes."""
        children = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True).stdout.split()
        for process in [self.process.pid, *map(int, children)]:
            os.kill(process, what)

    def kill(self):
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()

    def remove(self):
        self.process.poll() is None and self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Stand:
    """The API, an own machine, and replicas of the gateway."""

    def __init__(self, args, folder, store, api_script, budget):
        self.args, self.folder, self.processes = args, Path(folder), {}
        self.log = open(self.folder / "log", "a")
        (self.folder / "api.toml").write_text(api_script)
        (self.folder / "own.toml").write_text("tokens = 16\ngap_ms = 2\n")
        self.api, self.own = args.port + 8, args.port + 9
        self.replicas = [args.port + 1 + at for at in range(3)]
        self.start_fake("api", self.api)
        self.start_fake("own", self.own)
        for port in self.replicas:
            path = self.folder / f"{port}.toml"
            price = ", ".join(f'{key} = "{value}"' for key, value in PRICE.items())
            path.write_text(
                f'[gateway]\nlisten = "127.0.0.1:{port}"\n'
                f'[store]\npostgres = "{store}"\nreplica = "replica-{port}"\n[[budget]]\nwindow = "total"\n{budget}\n'
                f'[[upstream]]\nname = "api"\nurl = "http://127.0.0.1:{self.api}/v1"\nkind = "openai"\n'
                f'timeouts = {{ connect = "1s", first_byte = "5s", idle = "5s", total = "60s" }}\n'
                f'[[upstream]]\nname = "own"\nurl = "http://127.0.0.1:{self.own}/v1"\nkind = "openai"\ntier = "own"\n'
                f'[[model]]\nname = "paid"\non_cut = "error"\n'
                f'targets = [{{ upstream = "api", model = "m", price = {{ {price} }} }}]\n'
                f'[[model]]\nname = "own"\ntargets = [{{ upstream = "own", model = "m" }}]\n')
            self.start(port, [args.gristmill, "gateway", "--config", str(path)])
        for port in self.replicas:
            self.wait(port)

    def start(self, name, words):
        self.processes[name] = subprocess.Popen(words, stdout=self.log, stderr=self.log)

    def start_fake(self, name, port):
        words = ["--listen", f"127.0.0.1:{port}", "--script", str(self.folder / f"{name}.toml"), "--log-records", "0"]
        self.start(name, [self.args.fake, *words])

    def wait(self, port):
        for _ in range(200):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=2).read()
                return
            except OSError:
                time.sleep(0.1)
        self.stop()
        raise SystemExit((self.folder / "log").read_text()[-2000:])

    def invoice(self):
        """What the API bills, in nano units, and its requests."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.api}/_fake/totals", timeout=5) as answer:
            totals = json.loads(answer.read())
        return totals["billed"] / 1000, totals

    def resident(self, port):
        with open(f"/proc/{self.processes[port].pid}/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def stop(self, names=None):
        """Clean ends: all that is spent is settled, and leases are returned."""
        for name in names or list(self.processes):
            if self.processes[name].poll() is None:
                self.processes[name].send_signal(signal.SIGTERM if name in self.replicas else signal.SIGKILL)
        for name in names or list(self.processes):
            self.processes[name].wait(timeout=60)


async def ask(port, model, stream=True, leave_after=None, timeout=60):
    """A request: its status, error code and tokens. With `leave_after`, its client leaves after so many lines."""
    body = json.dumps(dict(model=model, stream=stream, max_tokens=80, stream_options=dict(include_usage=True) if stream else None,
                           messages=[dict(role="user", content="Tell me of the mill. " * 10)])).encode()
    writer = None
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
                         b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
            text, lines = b"", 0
            async for line in reader:
                text += line
                lines += line.startswith(b"data:")
                if leave_after is not None and lines >= leave_after:
                    return dict(status=200, code="left", tokens=0)
    except (OSError, TimeoutError) as error:
        return dict(status=0, code=type(error).__name__, tokens=0)
    finally:
        writer and writer.close()
    status = int(text[9:12] or 0)
    found = text.rfind(b'"total_tokens":')
    tokens = int(text[found + 15:].split(b"}")[0].split(b",")[0]) if found >= 0 else 0
    code = None if b'"code":"' not in text else text.split(b'"code":"')[1].split(b'"')[0].decode()
    if b'"error"' in text and status == 200:
        code = code or "error"
    return dict(status=status, code=code, tokens=tokens)


# Cap.

SUMS = "SELECT spent, leased, uncertain, ceiling FROM ledger_bucket WHERE unit = 'money'"


async def client(number, draw, port, until, counts):
    """Asks until it has an answer."""
    leaves, stream = number % 5 == 0, number % 3 != 0 or number % 5 == 0
    while time.monotonic() < until:
        got = await ask(port, "paid", stream, draw.randrange(1, 30) if leaves else None)
        word = got["code"] or ("whole" if got["status"] == 200 else str(got["status"]))
        counts[word] += 1
        if got["status"] == 200:
            return
        await asyncio.sleep(draw.uniform(0.2, 1.0))


async def crowd(args, stand, seed, kills, counts):
    draw, until = random.Random(seed), time.monotonic() + args.seconds
    clients = [asyncio.create_task(client(number, draw, stand.replicas[number % 3], until, counts))
               for number in range(args.clients)]
    if kills:
        await asyncio.sleep(draw.uniform(0.5, 3.0))
        stand.processes[stand.replicas[1]].kill()
    await asyncio.gather(*clients)


def cap(args, postgres):
    """The rounds; whether the cap held in all of them."""
    limit, held = round(float(args.cap) * 1e9), True
    print("| round | a replica killed | requests at the API | of them at once | refused by the budget | settled | leased by the "
          "dead | highest, watched | the API's invoice | over the cap |")
    print("|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for number in range(1, args.rounds + 1):
        database, kills = f"round_{number}", number % 2 == 0
        postgres.ask(f"CREATE DATABASE {database}", "postgres")
        counts, highest, running = collections.Counter(), [0], [True]

        def watch():
            while running[0]:
                for spent, leased, _, ceiling in postgres.ask(SUMS, database, check=False):
                    highest[0] = max(highest[0], int(spent) + int(leased))
                time.sleep(0.1)

        with tempfile.TemporaryDirectory(prefix="gateway-budget-") as folder:
            script = f"seed = {args.seed + number}{SCRIPT}{FAULTS}"
            stand = Stand(args, folder, postgres.words(database), script, f'money = "{args.cap}"')
            threading.Thread(target=watch, daemon=True).start()
            try:
                asyncio.run(crowd(args, stand, args.seed + number, kills, counts))
                stand.stop(stand.replicas)
                invoice, totals = stand.invoice()
            finally:
                running[0] = False
                stand.stop()
        spent, leased, _, ceiling = map(int, postgres.ask(SUMS, database)[0])
        over = max(spent + leased, highest[0], invoice) - limit
        held &= over <= 0 and ceiling == limit and invoice <= spent + leased
        units = lambda nanos: f"{nanos / 1e9:.6f}"
        print(f"| {number} | {'yes' if kills else 'no'} | {totals['attempts']} | {totals['most_running']} | "
              f"{counts['budget_exceeded']} | {units(spent)} | {units(leased)} | {units(highest[0])} | {units(invoice)} | "
              f"{units(max(0, over))} |", flush=True)
        others = {word: count for word, count in counts.items() if word != "budget_exceeded"}
        print(f"round {number}: {others}", file=sys.stderr, flush=True)
    print(f"\ncap {args.cap}, {args.clients} clients at once, three replicas: {'never exceeded' if held else 'EXCEEDED'}")
    return held


# Outage.


async def outage_load(args, stand, postgres, phases, samples):
    """Steady requests to both models at all replicas, while the phases begin and end."""
    counts = {name: collections.defaultdict(collections.Counter) for name in ("own", "paid")}
    tokens, slow, tasks, phase = [0], [], set(), ["before"]

    async def one(port, model):
        at, began = phase[0], time.monotonic()
        got = await ask(port, model, timeout=30)
        tokens[0] += got["tokens"]
        counts[model][at][got["code"] or got["status"]] += 1
        if model == "own":
            slow.append((at, time.monotonic() - began))

    async def steady(port, model, per_s):
        at = time.monotonic()
        while phase[0] != "end":
            at += 1 / per_s
            await asyncio.sleep(max(0, at - time.monotonic()))
            task = asyncio.create_task(one(port, model))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def sample():
        began = time.monotonic()
        while phase[0] != "end":
            samples.append((time.monotonic() - began, phase[0], [stand.resident(port) for port in stand.replicas]))
            await asyncio.sleep(2)

    running = [asyncio.create_task(steady(port, model, per_s)) for port in stand.replicas
               for model, per_s in (("own", args.own_per_s), ("paid", args.paid_per_s))]
    running.append(asyncio.create_task(sample()))
    for name, seconds, begins in phases:
        await asyncio.to_thread(begins)
        phase[0] = name
        await asyncio.sleep(seconds)
    phase[0] = "end"
    await asyncio.gather(*running)
    await asyncio.gather(*tasks)
    return counts, tokens[0], slow


def outage(args, postgres):
    postgres.ask("CREATE DATABASE outage", "postgres")
    samples = []
    with tempfile.TemporaryDirectory(prefix="gateway-budget-") as folder:
        # The API's answers are plain: what is counted is what the clients were told.
        stand = Stand(args, folder, postgres.words("outage"), SCRIPT, 'money = "1000"\ntokens = 1000000000')

        def down():
            if args.how == "kill":
                postgres.kill()
                stand.processes["api"].kill()
                stand.processes["api"].wait()
            else:
                postgres.signal(signal.SIGSTOP)
                stand.processes["api"].send_signal(signal.SIGSTOP)

        def up():
            if args.how == "kill":
                postgres.start()
                stand.start_fake("api", stand.api)
            else:
                postgres.signal(signal.SIGCONT)
                stand.processes["api"].send_signal(signal.SIGCONT)

        phases = [("before", 60, lambda: None), ("down", args.minutes * 60, down), ("after", 60, up)]
        try:
            counts, tokens, slow = asyncio.run(outage_load(args, stand, postgres, phases, samples))
            stand.stop(stand.replicas)
        finally:
            stand.stop()
    return told(args, postgres, counts, tokens, slow, samples)


def told(args, postgres, counts, tokens, slow, samples):
    """Prints what was found, and says whether it is as it should be."""
    for model, phases in counts.items():
        for phase, words in phases.items():
            print(f"{model}, {phase}: {dict(words)}")
    for phase in ("before", "down", "after"):
        times = sorted(seconds for at, seconds in slow if at == phase)
        rank = lambda share: times[min(len(times) - 1, int(share * len(times)))] * 1e3
        print(f"own, {phase}: {len(times)} answers, p50 {rank(0.5):.1f} ms, p99 {rank(0.99):.1f} ms")
    down = [(at, sizes) for at, phase, sizes in samples if phase == "down"]
    begins, ends, flat = down[0][0], down[-1][0], True
    # What the change itself takes is there by the second minute; receipts wait for the store up to a bound of 8,192.
    full = 1.1 * RECEIPTS / (args.own_per_s + args.paid_per_s) + 15
    is_full = full < args.minutes * 60 - 120
    since = begins + (full if is_full else 60)
    for replica in range(3):
        sizes = [(at, size[replica] / MEBI) for at, size in down]
        early = [size for at, size in sizes if since <= at < since + 60]
        late = [size for at, size in sizes if at > ends - 60]
        growth = sum(late) / len(late) - sum(early) / len(early) if early else 0.0
        flat &= growth <= (1.0 if is_full else 5.0)
        before = [size[replica] / MEBI for _, phase, size in samples if phase == "before"][-1]
        after = samples[-1][2][replica] / MEBI
        print(f"replica {replica + 1}: {before:.1f} MiB before, {sum(early) / max(1, len(early)):.1f} after {(since - begins) / 60:.1f} min, "
              f"{sum(late) / len(late):.1f} in the last minute ({growth:+.2f}), most {max(size for _, size in sizes):.1f}, {after:.1f} after")
    rows = postgres.ask("SELECT unit, spent, leased, uncertain FROM ledger_bucket", "outage")
    counted = {unit: list(map(int, numbers)) for unit, *numbers in rows}
    spent, leased, uncertain = counted["tokens"]
    print(f"tokens: clients were told of {tokens}, the store has {spent}, of which {uncertain} at their bound; {leased} leased")
    own = collections.Counter()
    for words in counts["own"].values():
        own.update(words)
    return flat and set(own) == {200} and leased == 0 and spent - uncertain <= tokens <= spent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["cap", "outage"])
    parser.add_argument("--gristmill", default="target/release/gristmill")
    parser.add_argument("--fake", default="target/release/fake-provider")
    parser.add_argument("--postgres", default="/usr/lib/postgresql/15/bin", help="folder of PostgreSQL's programs")
    parser.add_argument("--port", type=int, default=8770)
    parser.add_argument("--seed", type=int, default=50)
    parser.add_argument("--cap", default="0.012", help="of the money, for cap")
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=20, help="for which refused clients ask again")
    parser.add_argument("--how", choices=["kill", "freeze"], default="kill")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--own-per-s", type=float, default=15, help="requests at each replica, for outage")
    parser.add_argument("--paid-per-s", type=float, default=5)
    args = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16384) if hard > 0 else 16384, hard))
    postgres = Postgres(args.postgres, args.port)
    try:
        return 0 if (cap if args.what == "cap" else outage)(args, postgres) else 1
    finally:
        postgres.remove()


if __name__ == "__main__":
    sys.exit(main())
