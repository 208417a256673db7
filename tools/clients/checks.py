"""What the checks of clients share: functions that are run one after the other on a server, a line for each."""

import argparse
import sys

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def arguments(description=None):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("url")
    parser.add_argument("--api-key")
    return parser


def run(server, only=""):
    """Runs those whose name has `only` in it, and leaves with 1 if any failed."""
    failed = 0
    for function in CHECKS:
        if only not in function.__name__:
            continue
        try:
            said = function(server)
            print(f"ok    {function.__name__}" + (f": {said}" if said else ""), flush=True)
        except Exception as error:  # every check runs, whatever the one before did
            failed += 1
            print(f"FAIL  {function.__name__}: {type(error).__name__}: {error}", flush=True)
    print(f"{failed} failed" if failed else "all passed")
    sys.exit(1 if failed else 0)
