#!/usr/bin/env python3
"""Coding agents with their default flags against a running server: Claude Code and Codex each get a file with a slip to mend.

    gristmill serve qwen2.5-coder-1.5b-instruct --context 32768 --parallel 2 --tool-calls-from-json on
    python3 tools/clients/coding_agents.py http://127.0.0.1:8080 [--keep FOLDER] [--only claude|codex]

Held: no request is refused (4xx) or fails (5xx), and a conversation's second turn reads most of its prompt from the prefix cache.
Told, not held: whether the file was mended, and what the agent said. Small models often fail at that.

Needs npm; the packages are those of tools/clients/package.json, installed into a temporary folder. Each agent has a home of its own.
The prompts have about 19,000 and 9,000 tokens: some minutes on few cores.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.request

import record

TASK = "The function add in sums.py is wrong: it must return a + b. Edit sums.py."
WRONG = "def add(a, b):\n    return a - b\n"
SECONDS = 1800
HERE = pathlib.Path(__file__).parent


def environment(home, extra):
    return {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"} | extra


def claude(packages, home, url, model):
    platform = next((packages / "node_modules/@anthropic-ai").glob("claude-code-*/claude"), None)
    program = platform or packages / "node_modules/.bin/claude"
    command = [str(program), "-p", TASK, "--model", model, "--allowedTools", "Read,Edit,Write,Bash"]
    return command, environment(home, {
        "ANTHROPIC_BASE_URL": url, "ANTHROPIC_AUTH_TOKEN": "none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1", "API_TIMEOUT_MS": str(SECONDS * 1000), "CLAUDE_STREAM_IDLE_TIMEOUT_MS": str(SECONDS * 1000),
    })


def codex(packages, home, url, model):
    config = home / ".codex/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f"""model = "{model}"
model_provider = "gristmill"

[model_providers.gristmill]
name = "Gristmill"
base_url = "{url}/v1"
wire_api = "responses"
stream_idle_timeout_ms = {SECONDS * 1000}
""")
    return [str(packages / "node_modules/.bin/codex"), "exec", "-s", "workspace-write", TASK], environment(home, {})


def usage(answer):
    """Prompt tokens, and those of them that were cached, as the last event of a stream tells them."""
    for line in reversed(answer.splitlines()):
        if not line.startswith("data: {"):
            continue
        event = json.loads(line[6:])
        told = event.get("usage") or (event.get("response") or {}).get("usage")
        if event["type"] == "message_delta" and told:
            cached = told["cache_read_input_tokens"]
            return told["input_tokens"] + cached, cached
        if event["type"].startswith("response.") and told:
            return told["input_tokens"], told["input_tokens_details"]["cached_tokens"]
    return None


def run(name, make, packages, url, model, folder):
    """What went wrong, in words."""
    folder.mkdir(parents=True)
    work, home = folder / "work", folder / "home"
    work.mkdir()
    home.mkdir()
    (work / "sums.py").write_text(WRONG)
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    server = record.serve(0, folder / "requests", url)
    command, env = make(packages, home, f"http://127.0.0.1:{server.server_address[1]}", model)
    with open(folder / "output.txt", "w") as out:
        try:
            code = subprocess.run(command, cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                  timeout=SECONDS).returncode
        except subprocess.TimeoutExpired:
            code = f"no end within {SECONDS} s"
    server.shutdown()
    records = [json.loads(path.read_text()) for path in sorted((folder / "requests").glob("*.json"))]
    wrong = [f"{name}: {r['method']} {r['path']} was answered {r['status']}: {r['answer'][:300]}"
             for r in records if r["method"] == "POST" and r.get("status", 0) >= 400]
    counts = [count for r in records if (count := usage(r.get("answer", "")))]
    if not counts:
        wrong.append(f"{name}: no answer came to its end")
    # A first prompt of its kind is computed; what follows it in the same conversation is not.
    cold = [f"{cached} of {prompt}" for prompt, cached in counts[1:] if cached < 0.9 * prompt]
    if cold:
        wrong.append(f"{name}: further prompts were cached only in part: {', '.join(cold)} tokens")
    warnings = sorted({warning for r in records for warning in r.get("warnings", [])})
    text = (work / "sums.py").read_text()
    outcome = "mended" if "return a + b" in text else "not touched" if text == WRONG else "changed, not mended"
    print(f"{name}: exit code {code}, {len(counts)} answers, prompt and cached tokens {counts}; the file is {outcome}")
    for warning in warnings:
        print(f"  left out: {warning}")
    said = (folder / "output.txt").read_text().strip().splitlines()
    print(f"  its last line: {said[-1][:200] if said else '(nothing)'}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--keep", help="where the transcripts go")
    parser.add_argument("--only", choices=["claude", "codex"])
    parser.add_argument("--packages", help="a folder with the packages installed already")
    args = parser.parse_args()
    url = args.url.rstrip("/")
    model = json.load(urllib.request.urlopen(f"{url}/v1/models"))["data"][0]["id"]
    with tempfile.TemporaryDirectory() as temporary:
        packages = pathlib.Path(args.packages or temporary)
        if not args.packages:
            shutil.copy(HERE / "package.json", packages)
            subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--silent"], cwd=packages, check=True)
        folder = pathlib.Path(args.keep or pathlib.Path(temporary) / "transcripts").absolute()
        agents = {"claude": claude, "codex": codex}
        wrong = [problem for name, make in agents.items() if args.only in (None, name)
                 for problem in run(name, make, packages.absolute(), url, model, folder / name)]
    for problem in wrong:
        print(f"FAILED {problem}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
