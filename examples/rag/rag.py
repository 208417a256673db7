#!/usr/bin/env python3
"""Answers questions about a folder of Markdown files: Gristmill embeds and writes, PostgreSQL with pgvector finds.

    python rag.py index FOLDER
    python rag.py ask "How do I serve two models?"

README.md beside this file says what must run before.
"""

import argparse
import pathlib
import sys

import openai
import psycopg

# Tokens of a passage, with room for its headings below the 256 that all-minilm-l6-v2 takes.
PASSAGE = 200
# Texts of a request; the server takes at most 2,048.
BATCH = 64
INSTRUCTIONS = (
    "Answer the question in one to four full sentences, from the numbered passages alone. "
    "If they do not have the answer, say so."
)


def passages(client, model, page):
    """The passages of a page, each with the headings that it stands below."""
    asked = {"model": model, "input": page.read_text(), "by": "headings", "size": PASSAGE}
    for part in client.post("/chunk", body=asked, cast_to=object)["data"]:
        if part["text"].strip():
            yield page.name, " / ".join(part["headings"]), part["text"].strip()


def embed(client, model, texts):
    """The vectors of texts, and the fingerprint of the arithmetic that made them."""
    # A passage that is too long all the same is embedded in parts, whose vectors are averaged.
    extra = {"truncate": "CHUNK"}
    raw = client.embeddings.with_raw_response.create(model=model, input=texts, extra_body=extra)
    return [str(entry.embedding) for entry in raw.parse().data], raw.headers["x-embedding-fingerprint"]


def index(client, database, args):
    pages = sorted(pathlib.Path(args.folder).glob("*.md"))
    found = [passage for page in pages for passage in passages(client, args.embedder, page)]
    if not found:
        sys.exit(f"{args.folder} has no Markdown files with text")
    size = len(client.embeddings.create(model=args.embedder, input="a").data[0].embedding)
    database.execute("create extension if not exists vector")
    database.execute("drop table if exists passages")
    database.execute(
        "create table passages (page text, heading text, body text, fingerprint text, "
        f"embedding vector({size}))"
    )
    for start in range(0, len(found), BATCH):
        batch = found[start : start + BATCH]
        vectors, fingerprint = embed(client, args.embedder, [f"{heading}\n{body}" for _, heading, body in batch])
        rows = [(*passage, fingerprint, vector) for passage, vector in zip(batch, vectors)]
        with database.cursor() as cursor:
            cursor.executemany("insert into passages values (%s, %s, %s, %s, %s)", rows)
        print(f"\r{start + len(batch)} of {len(found)} passages", end="", file=sys.stderr, flush=True)
    database.execute("create index on passages using hnsw (embedding vector_cosine_ops)")
    print(f"\n{len(pages)} pages are indexed", file=sys.stderr)


def ask(client, database, args):
    [vector], fingerprint = embed(client, args.embedder, [args.question])
    [made] = database.execute("select fingerprint from passages limit 1").fetchone() or [None]
    if made != fingerprint:
        sys.exit(f"the passages were embedded by {made}, the question by {fingerprint}: run `index` again")
    near = database.execute(
        "select page, heading, body, 1 - (embedding <=> %(v)s::vector) from passages "
        "order by embedding <=> %(v)s::vector limit %(top)s",
        {"v": vector, "top": args.top},
    ).fetchall()
    told = "\n\n".join(f"[{n}] {page}, {heading}\n{body}" for n, (page, heading, body, _) in enumerate(near, 1))
    messages = [
        {"role": "system", "content": INSTRUCTIONS},
        {"role": "user", "content": f"{told}\n\nQuestion: {args.question}"},
    ]
    answer = client.chat.completions.create(
        model=args.writer, messages=messages, temperature=0, max_tokens=300, stream=True
    )
    for chunk in answer:
        print(chunk.choices[0].delta.content or "" if chunk.choices else "", end="", flush=True)
    print("\n\nSources:")
    for number, (page, heading, _, cosine) in enumerate(near, 1):
        print(f"[{number}] {page}, {heading} (cosine {cosine:.2f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", default="http://127.0.0.1:8080/v1", help="base URL of Gristmill")
    parser.add_argument("--api-key", default="none")
    parser.add_argument("--database", default="dbname=rag", help="connection string of PostgreSQL")
    parser.add_argument("--embedder", default="all-minilm-l6-v2", help="name of the embedding model")
    parser.add_argument("--writer", default="qwen2.5-coder-1.5b-instruct", help="name of the model that answers")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("index", help="embed a folder of Markdown files").add_argument("folder")
    question = commands.add_parser("ask", help="answer a question from what is indexed")
    question.add_argument("question")
    question.add_argument("--top", type=int, default=5, help="passages that are given to the model")
    args = parser.parse_args()
    client = openai.OpenAI(base_url=args.server, api_key=args.api_key)
    with psycopg.connect(args.database) as database:
        {"index": index, "ask": ask}[args.command](client, database, args)


main()
