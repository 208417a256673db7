"""What the scripts that measure a peer have in common: flags that `cargo xtask peers` gives to all of them, and what they tell it."""

import argparse
import json


def flags(parser):
    """What is measured, and how many threads measure it."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--prompt", type=int, default=0, help="tokens of a prompt")
    what.add_argument("--generate", type=int, default=0, help="tokens that each stream generates")
    parser.add_argument("--threads", type=int, default=2)


def streams(parser):
    """For peers that run several."""
    parser.add_argument("--before", type=int, default=0, help="tokens that each stream holds before it generates")
    parser.add_argument("--streams", type=int, default=1)


def tell(rate):
    """Tokens a second, as llama-bench names them, in a line of its own after whatever the libraries wrote."""
    print(json.dumps({"avg_ts": rate}))
