#!/usr/bin/env python3
"""Exercises a running server with an embedding model through the `openai`, `cohere`, `huggingface_hub` and `ollama`
packages.

    gristmill serve all-minilm-l6-v2 --port 8080 &
    pip install -r tools/clients/requirements.txt
    python tools/clients/encoders_check.py http://127.0.0.1:8080 [--api-key KEY]

Prints one line a check and leaves with 1 if any failed. Every package must get the same vectors.
"""

import asyncio
import struct

import cohere
import numpy
import ollama
import openai
from checks import arguments, check, run
from huggingface_hub import InferenceClient

TEXTS = ["A mill grinds grain.", "Le moulin moud le grain.", "The stock market fell today."]
QUERY = "How is flour made?"
LONG = "grain " * 5_000


class Server:
    def __init__(self, url, key):
        self.url = url
        self.key = key or "none"
        self.openai = openai.OpenAI(base_url=f"{url}/v1", api_key=self.key)
        self.model = self.openai.models.list().data[0].id
        self.cohere = cohere.ClientV2(api_key=self.key, base_url=url)
        self.cohere_v1 = cohere.Client(api_key=self.key, base_url=url)
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self.ollama = ollama.Client(host=url, headers=headers)
        # As float32 of base64, which the package asks for by itself.
        self.vectors = self.embed(TEXTS)

    def embed(self, texts, **extra):
        answer = self.openai.embeddings.create(model=self.model, input=texts, **extra)
        return numpy.array([entry.embedding for entry in answer.data], dtype=numpy.float32)

    def hugging(self, task):
        return InferenceClient(f"{self.url}/pipeline/{task}", token=self.key)

    def same(self, vectors):
        assert numpy.array_equal(numpy.array(vectors, dtype=numpy.float32), self.vectors), "other vectors"


def refused(kind, word, call):
    try:
        call()
    except kind as error:
        assert word in str(getattr(error, "body", "")) + str(error), error
        return
    raise AssertionError(f"no error about {word}")


@check
def openai_embeddings(s):
    assert numpy.allclose(numpy.linalg.norm(s.vectors, axis=1), 1, atol=1e-5)
    near = s.vectors @ s.embed(QUERY)[0]
    assert near.argmax() == 0 and near.argmin() == 2, near
    s.same(s.embed(TEXTS, encoding_format="float"))
    answer = s.openai.embeddings.create(model=s.model, input=[101, 2057, 102])
    assert answer.usage.prompt_tokens == 3 and answer.object == "list"
    return f"{s.vectors.shape[1]} dimensions"


@check
def openai_raw_headers(s):
    raw = s.openai.embeddings.with_raw_response.create(
        model=s.model, input=LONG, extra_body={"truncate_prompt_tokens": -1}
    )
    cut = int(raw.headers["x-truncated-tokens"])
    assert cut > 1_000 and raw.headers["x-embedding-fingerprint"]
    assert raw.parse().usage.truncated_tokens == cut
    refused(openai.BadRequestError, "tokens", lambda: s.embed(LONG))
    refused(openai.NotFoundError, "nobody", lambda: s.openai.embeddings.create(model="nobody", input="a"))
    return f"{cut} tokens cut"


@check
def openai_async(s):
    async def both():
        client = openai.AsyncOpenAI(base_url=f"{s.url}/v1", api_key=s.key)
        one = [client.embeddings.create(model=s.model, input=text) for text in TEXTS]
        return [answer.data[0].embedding for answer in await asyncio.gather(*one)]

    # Alone or in a batch: the same bits.
    s.same(asyncio.run(both()))


@check
def cohere_embed(s):
    kinds = ["float", "int8", "uint8", "binary", "ubinary", "base64"]
    answer = s.cohere.embed(model=s.model, input_type="search_document", texts=TEXTS, embedding_types=kinds)
    s.same(answer.embeddings.float_)
    assert answer.texts == TEXTS and answer.meta.billed_units.input_tokens > 10
    packed = [struct.unpack(f"<{s.vectors.shape[1]}f", __import__("base64").b64decode(t)) for t in answer.embeddings.base64]
    s.same(packed)
    bits = numpy.packbits(s.vectors > 0, axis=1)
    assert numpy.array_equal(numpy.array(answer.embeddings.ubinary, dtype=numpy.uint8), bits)
    assert numpy.array_equal(numpy.array(answer.embeddings.binary), bits.astype(int) - 128)
    small = numpy.array(answer.embeddings.int8, dtype=float)
    cosines = (small * s.vectors).sum(1) / numpy.linalg.norm(small, axis=1)
    assert (cosines > 0.999).all(), cosines
    assert numpy.array_equal(numpy.array(answer.embeddings.uint8) - 128, small)
    refused(cohere.BadRequestError, "tokens", lambda: s.cohere.embed(
        model=s.model, input_type="search_query", texts=[LONG], truncate="NONE"))
    return f"cosines of int8 {cosines.min():.5f}"


@check
def cohere_v1_embed(s):
    answer = s.cohere_v1.embed(model=s.model, texts=TEXTS, input_type="search_document")
    assert answer.response_type == "embeddings_floats"
    s.same(answer.embeddings)
    typed = s.cohere_v1.embed(model=s.model, texts=TEXTS, input_type="search_document", embedding_types=["float"])
    assert typed.response_type == "embeddings_by_type"
    s.same(typed.embeddings.float_)


@check
def cohere_rerank(s):
    answer = s.cohere.rerank(model=s.model, query=QUERY, documents=TEXTS, top_n=2)
    assert [result.index for result in answer.results] == [0, 1] and answer.meta.billed_units.search_units == 1
    older = s.cohere_v1.rerank(model=s.model, query=QUERY, documents=TEXTS, return_documents=True)
    assert older.results[0].document.text == TEXTS[0] and len(older.results) == 3
    assert older.results[0].relevance_score == answer.results[0].relevance_score
    objects = s.cohere_v1.rerank(model=s.model, query=QUERY, documents=[{"text": text} for text in TEXTS])
    assert [result.index for result in objects.results] == [result.index for result in older.results]
    refused(cohere.BadRequestError, "documents", lambda: s.cohere.rerank(model=s.model, query="a", documents=[]))
    refused(cohere.NotFoundError, "nobody", lambda: s.cohere.rerank(model="nobody", query="a", documents=["b"]))


@check
def hugging_face(s):
    s.same(s.hugging("feature-extraction").feature_extraction(TEXTS))
    # The model decides the task of the root.
    s.same(InferenceClient(s.url, token=s.key).feature_extraction(TEXTS, normalize=True, truncate=True))
    scores = s.hugging("sentence-similarity").sentence_similarity(TEXTS[0], TEXTS)
    assert numpy.allclose(scores, s.vectors @ s.vectors[0], atol=1e-5), scores
    left = s.hugging("feature-extraction").feature_extraction(LONG, truncation_direction="left")
    assert left.shape == (1, s.vectors.shape[1])


@check
def ollama_embed(s):
    answer = s.ollama.embed(model=s.model, input=TEXTS)
    s.same(answer.embeddings)
    assert answer.prompt_eval_count > 10 and answer.total_duration > 0
    assert numpy.array_equal(numpy.array(s.ollama.embed(model=s.model, input=QUERY).embeddings, dtype=numpy.float32), s.embed(QUERY))
    older = s.ollama.embeddings(model=s.model, prompt=TEXTS[0]).embedding
    assert numpy.allclose(older / numpy.linalg.norm(older), s.vectors[0], atol=1e-5)
    assert s.ollama.embed(model=s.model, input=[]).embeddings == []
    refused(ollama.ResponseError, "tokens", lambda: s.ollama.embed(model=s.model, input=LONG, truncate=False))


args = arguments().parse_args()
run(Server(args.url, args.api_key))
