#!/usr/bin/env python3
"""Answers a question about every row of a Ray dataset with the HTTP processor of Ray Data.

    gristmill serve MODEL &
    pip install -r examples/pipelines/requirements-ray.txt
    python examples/pipelines/ray_data.py examples/pipelines/reviews.csv [--server URL]
"""

import argparse
import os

import ray
from ray.data.llm import HttpRequestProcessorConfig, build_processor

QUESTION = "Is this review positive, negative or mixed? Answer with one word.\n\n"


def processor(server, key=None, model=None, at_once=4):
    def request_of(row):
        asked = [{"role": "user", "content": QUESTION + row["text"]}]
        payload = {"messages": asked, "max_tokens": 8, "temperature": 0}
        return {"payload": payload | ({"model": model} if model else {}), "id": row["id"], "text": row["text"]}

    def answer_of(row):
        # What is refused for good comes as the body of the error, without its status.
        refused = row["http_response"].get("error")
        choices = row["http_response"].get("choices")
        return {
            "id": row["id"],
            "text": row["text"],
            "answer": choices[0]["message"]["content"] if choices else None,
            "error": None if refused is None else refused["message"],
        }

    config = HttpRequestProcessorConfig(
        url=f"{server}/v1/chat/completions",
        headers={"authorization": f"Bearer {key}"} if key else None,
        # The rows of a batch are asked for one after the other. Requests run side by side only because there are several
        # actors, which a pair starts all at once, and small batches for each of them. The defaults are 1 and 64.
        concurrency=(at_once, at_once),
        batch_size=4,
        # The default is 0: the first 429 of a busy server would end the whole dataset.
        max_retries=8,
        base_retry_wait_time_in_s=0.5,
        # Actors wait for answers; they need no core of their own.
        http_request_stage={"num_cpus": 0.01},
    )
    return build_processor(config, preprocess=request_of, postprocess=answer_of)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", help="CSV file with the columns `id` and `text`")
    parser.add_argument("--server", default="http://127.0.0.1:8080")
    parser.add_argument("--api-key", default=os.environ.get("GRISTMILL_API_KEY"))
    parser.add_argument("--model")
    args = parser.parse_args()
    ray.init(log_to_driver=False)
    rows = processor(args.server, args.api_key, args.model)(ray.data.read_csv(args.source))
    for row in sorted(rows.take_all(), key=lambda row: row["id"]):
        print(row["id"], row["answer"] or f"error: {row['error']}", sep="\t")


if __name__ == "__main__":
    main()
