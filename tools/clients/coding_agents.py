#!/usr/bin/env python3
"""Coding agents with their default flags against a running server: Claude Code and Codex each get a file in which to change a word.

    gristmill serve qwen2.5-coder-1.5b-instruct --context 32768 --parallel 2 --tool-calls-from-json on
    python3 tools/clients/coding_agents.py http://127.0.0.1:8080 [--keep FOLDER] [--only claude|codex] [--runs N]

`cargo xtask agents` does both. Each runs without a person, some times in the same folder.
Held: no request is refused (4xx) or fails (5xx), and a conversation's second turn reads most of its prompt from the prefix cache.
Told, not held: whether the file was edited as it was asked. Small models often fail at that.

FOLDER/claude/transcript.txt and FOLDER/codex/transcript.txt account for what was sent, without the prompts; the whole requests are
beside them. Needs npm; the packages are those of tools/clients/package.json, installed into a temporary folder unless --packages
names one. The first prompts have about 19,000 and 9,000 tokens: some minutes on few cores.
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
import transcript

SECONDS = 1800
# It says exactly what to do, for models of a few billion weights.
TASKS = {
    "claude": "In the file notes.txt, replace the word Monday by Friday. Run this command with the Bash tool: sed -i s/Monday/Friday/ notes.txt",
    "codex": "In the file notes.txt, replace the word Monday by Friday. Run this shell command: sed -i s/Monday/Friday/ notes.txt",
}
BEFORE = "The mill is open.\nFlour is sold by the sack.\nThe stone is dressed on Monday.\nThe miller lives next door.\nKnock twice.\n"
AFTER = BEFORE.replace("Monday", "Friday")
HERE = pathlib.Path(__file__).parent


def environment(home, extra):
    return {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"} | extra


def claude(packages, home, url, model, task):
    """Its flags are the default ones; what it may do without a person is in its settings."""
    settings = home / ".claude/settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"permissions": {"allow": ["Read", "Edit", "Write", "Bash"]}}))
    platform = next((packages / "node_modules/@anthropic-ai").glob("claude-code-*/claude"), None)
    program = platform or packages / "node_modules/.bin/claude"
    return [str(program), "-p", task], environment(home, {
        "ANTHROPIC_BASE_URL": url, "ANTHROPIC_AUTH_TOKEN": "none",
        "ANTHROPIC_MODEL": model, "ANTHROPIC_SMALL_FAST_MODEL": model,
        "API_TIMEOUT_MS": str(SECONDS * 1000), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    })


def codex(packages, home, url, model, task):
    """Its flags are the default ones; its configuration names the server, and lets it write below its folder."""
    config = home / ".codex/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f"""model = "{model}"
model_provider = "gristmill"
sandbox_mode = "workspace-write"

[model_providers.gristmill]
name = "Gristmill"
base_url = "{url}/v1"
wire_api = "responses"
stream_idle_timeout_ms = {SECONDS * 1000}
""")
    return [str(packages / "node_modules/.bin/codex"), "exec", task], environment(home, {})


def attempt(command, env, work, out):
    """Runs an agent once; how it ended, and what became of the file."""
    (work / "notes.txt").write_text(BEFORE)
    try:
        code = subprocess.run(command, cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=SECONDS).returncode
        ended = f"exit code {code}"
    except subprocess.TimeoutExpired:
        ended = f"no end within {SECONDS} s"
    text = (work / "notes.txt").read_text() if (work / "notes.txt").exists() else ""
    return ended, "edited right" if text == AFTER else "not edited" if text == BEFORE else "edited wrong", text


def reuse(records):
    """Prompt and cached tokens of each answer, and of the further turns those that the cache had less than nine tenths of."""
    counts, cold, seen = [], [], set()
    for record in records:
        if not transcript.turns(record):
            continue
        follows = transcript.conversation(record) in seen
        seen.add(transcript.conversation(record))
        if count := transcript.usage(record):
            prompt, cached, _ = count
            counts.append((prompt, cached))
            if follows and cached < 0.9 * prompt:
                cold.append(f"{cached} of {prompt}")
    return counts, cold


def run(name, make, packages, url, model, folder, runs):
    """An agent on the same task, some times in the same folder; what went wrong, in words."""
    work, home = folder / "work", folder / "home"
    work.mkdir(parents=True)
    home.mkdir()
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    server = record.serve(0, folder / "requests", url)
    command, env = make(packages, home, f"http://127.0.0.1:{server.server_address[1]}", model, TASKS[name])
    account, wrong, before, cached_once = "", [], 0, False
    for number in range(1, runs + 1):
        with open(folder / f"output-{number}.txt", "w") as out:
            ended, outcome, text = attempt(command, env, work, out)
        paths = sorted((folder / "requests").glob("*.json"))
        records, before = [json.loads(path.read_text()) for path in paths[before:]], len(paths)
        wrong += [f"{name}: {r['method']} {r['path']} was answered {r['status']}: {r['answer'][:300]}"
                  for r in records if r["method"] == "POST" and r.get("status", 0) >= 400]
        counts, cold = reuse(records)
        if not counts:
            wrong.append(f"{name}: no answer came to its end")
        if cold:
            wrong.append(f"{name}: further prompts were cached only in part: {', '.join(cold)} tokens")
        cached_once |= any(cached >= 0.9 * prompt for prompt, cached in counts)
        head = f"{name}, run {number}: {ended}, the file was {outcome}"
        print(f"{head}; prompt and cached tokens {counts}", flush=True)
        account += transcript.write(f"{head} ({model})", records, BEFORE, text, {str(work): "WORK", str(home): "HOME"}) + "\n"
    server.shutdown()
    (folder / "transcript.txt").write_text(account)
    return wrong if cached_once else [*wrong, f"{name}: no prompt was read from the cache"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--keep", help="where the transcripts go")
    parser.add_argument("--only", choices=["claude", "codex"])
    parser.add_argument("--runs", type=int, default=3, help="how often each agent gets its task, in the same folder (3)")
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
                 for problem in run(name, make, packages.absolute(), url, model, folder / name, args.runs)]
    for problem in wrong:
        print(f"FAILED {problem}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
