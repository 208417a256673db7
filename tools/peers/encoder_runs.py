"""Timing of a program on a case of encoders, and what `cargo xtask peers encoders` reads of it."""

import json
import queue
import threading
import time

import encoder_cases

# Runs of a query; the median counts.
QUERIES = 200


def measure(encode, texts, case, size, workers=1, by_length=True, warm=True):
    """Texts a second over all texts in batches of `size`, or the median milliseconds of a query. A run to warm up is not counted.

    `encode` takes texts and returns their vectors. With several workers, each takes the next batch. Without `by_length` the batches
    are of the texts as they come, for servers.
    """
    if case == encoder_cases.QUERY:
        return {"p50_ms": median_ms(lambda: encode(texts))}
    batches = [[texts[i] for i in batch] for batch in encoder_cases.batches(texts, size, by_length)]
    if warm:
        everything(encode, batches, workers)
    start = time.perf_counter()
    everything(encode, batches, workers)
    seconds = time.perf_counter() - start
    tokens = sum(map(len, texts))
    return {"texts_per_s": len(texts) / seconds, "tokens_per_s": tokens / seconds}


def everything(encode, batches, workers):
    """Encodes all batches, on as many threads as there are workers."""
    waiting = queue.SimpleQueue()
    for batch in batches:
        waiting.put(batch)
    failures = []

    def work():
        try:
            while True:
                encode(waiting.get_nowait())
        except queue.Empty:
            pass
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(workers - 1)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def median_ms(call):
    for _ in range(QUERIES // 10):
        call()
    times = []
    for _ in range(QUERIES):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * sorted(times)[QUERIES // 2]


def tell(program, flags, model, case, result):
    """One line a variant; libraries may write lines of their own between."""
    line = {"program": program, "flags": flags, "model": model, "case": case, **result}
    print(json.dumps(line), flush=True)
