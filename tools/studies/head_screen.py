"""How many rows of the output head must be read exactly after a screening pass over its high bits.

The question behind docs/decisions/0016: Q6_K codes are 4 high and 2 low bits. If only the high bits (and the scales) of
every row are read, a row can be left out when its screened logit plus a bound on the error stays below the best lower
bound. Three bounds are tried, for the greedy choice and for the 40 best:

  l1         sum over blocks of |h| times the largest error of a weight: holds always
  cauchy     sum over blocks of |h_b| |e_b|, with the error's norm stored for each block: holds always
  hoeffding  the low bits rounded at random once, at load: wrong with a probability below 1e-9 a step over all rows
             (Hoeffding, 1963: the errors of a row are independent, with mean 0, each in a range of one high step)

    pip install -r tools/fixtures/requirements.txt
    python tools/studies/head_screen.py FOLDER FILE.gguf TEXT
"""

import math
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

BLOCK = 16  # weights that share a scale in Q6_K
PANEL = 16  # rows that are read together
HIGH = 4  # what one step of the high bits is in codes
WRONG = 1e-9


def main(folder: str, file: str, text: str) -> None:
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32).eval()
    ids = tokenizer(open(text, encoding="utf-8").read(), return_tensors="pt").input_ids[:, :384]
    with torch.no_grad():
        hidden = model.model(ids).last_hidden_state[0, 16::8]
        head = model.lm_head.weight
        rows, width = head.shape
        blocks = head.reshape(rows, width // BLOCK, BLOCK)
        scale = (blocks.abs().amax(-1, keepdim=True) / 31).clamp_min(1e-12)
        codes = (blocks / scale).round().clamp(-32, 31)
        exact = (codes * scale).reshape(rows, width)
        low = torch.remainder(codes, HIGH)
        middle = codes - low + (HIGH - 1) / 2
        chance = codes - low + HIGH * (torch.rand_like(low) < low / HIGH)
        screens = {"l1": middle, "cauchy": middle, "hoeffding": chance}
        names = {1: "greedy", 40: "40 best"}
        logits = hidden @ exact.T
        print(f"{len(hidden)} positions, {rows} rows of {width}; sd of logits {logits.std(-1).mean():.2f}")
        for name, screen in screens.items():
            approx = hidden @ (screen * scale).reshape(rows, width).T
            h = hidden.reshape(len(hidden), width // BLOCK, BLOCK)
            if name == "l1":
                bound = h.abs().sum(-1) @ (scale[..., 0] * (HIGH - 1) / 2).T
            elif name == "cauchy":
                bound = h.norm(dim=-1) @ ((codes - middle) * scale).norm(dim=-1).T
            else:
                ranges = h.square().sum(-1) @ (scale[..., 0] * HIGH).square().T
                bound = (ranges / 2 * math.log(2 * rows / WRONG)).sqrt()
            wrong = ((logits - approx).abs() > bound * 1.0001 + 1e-3).sum().item()
            for count, what in names.items():
                least = (approx - bound).topk(count, dim=-1).values[:, -1:]
                open_rows = (approx + bound) >= least
                left = open_rows.float().mean(-1)
                panels = open_rows.reshape(len(hidden), rows // PANEL, PANEL).any(-1).float().mean(-1)
                # An exact panel is read whole: the kernels' panels hold PANEL rows side by side.
                bits = 4.5 + 0.0625 + panels.mean() * 6.5625
                print(
                    f"{name:10} {what:8} rows left: median {100 * left.median():.2f} %, mean {100 * left.mean():.2f} %,"
                    f" most {100 * left.max():.1f} %; panels: mean {100 * panels.mean():.1f} %;"
                    f" bits a weight {bits:.2f} of 6.56; outside its bound: {wrong}"
                )


if __name__ == "__main__":
    main(*sys.argv[1:])
