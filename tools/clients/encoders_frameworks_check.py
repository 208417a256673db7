#!/usr/bin/env python3
"""Exercises a running server with an embedding model through `litellm`, LlamaIndex and LangChain.

    gristmill serve all-minilm-l6-v2 --port 8080 &
    pip install -r tools/clients/requirements-litellm.txt
    python tools/clients/encoders_frameworks_check.py http://127.0.0.1:8080 [--api-key KEY]

Prints one line a check and leaves with 1 if any failed. Every package must get the same vectors.
"""

import litellm
import openai
from checks import arguments, check, run
from langchain_huggingface import HuggingFaceEndpointEmbeddings
from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference

TEXTS = ["A mill grinds grain.", "The stock market fell today."]
QUERY = "How is flour made?"


class Server:
    def __init__(self, url, key):
        self.url = url
        self.key = key or "none"
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=self.key)
        self.model = client.models.list().data[0].id
        self.vectors = [e.embedding for e in client.embeddings.create(model=self.model, input=TEXTS).data]

    def same(self, vectors):
        difference = max(abs(a - b) for one, other in zip(vectors, self.vectors) for a, b in zip(one, other))
        assert len(vectors) == len(self.vectors) and difference < 1e-7, difference


@check
def litellm_embedding(s):
    for provider in ("openai", "hosted_vllm"):
        answer = litellm.embedding(model=f"{provider}/{s.model}", api_base=f"{s.url}/v1", api_key=s.key, input=TEXTS)
        s.same([entry["embedding"] for entry in answer.data])
        assert answer.usage.prompt_tokens > 5
    answer = litellm.embedding(model=f"ollama/{s.model}", api_base=s.url, input=TEXTS)
    s.same([entry["embedding"] for entry in answer.data])


@check
def litellm_rerank(s):
    bases = {"cohere": s.url, "jina_ai": f"{s.url}/v1/rerank", "hosted_vllm": s.url, "infinity": s.url}
    for provider, base in bases.items():
        answer = litellm.rerank(
            model=f"{provider}/{s.model}", api_base=base, api_key=s.key, query=QUERY, documents=TEXTS, top_n=1
        )
        assert [result["index"] for result in answer.results] == [0], (provider, answer)
    answer = litellm.rerank(
        model=f"huggingface/{s.model}", api_base=s.url, api_key=s.key, query=QUERY, documents=TEXTS
    )
    assert answer.results[0]["index"] == 0, answer
    return ", ".join([*bases, "huggingface"])


@check
def llama_index(s):
    embedder = TextEmbeddingsInference(model_name=s.model, base_url=s.url, auth_token=f"{s.key}", text_instruction=" ", query_instruction=" ")
    s.same(embedder.get_text_embedding_batch(TEXTS))
    assert len(embedder.get_query_embedding(QUERY)) == len(s.vectors[0])


@check
def langchain_hugging_face(s):
    embedder = HuggingFaceEndpointEmbeddings(model=s.url, huggingfacehub_api_token=s.key)
    s.same(embedder.embed_documents(TEXTS))
    assert len(embedder.embed_query(QUERY)) == len(s.vectors[0])


args = arguments().parse_args()
run(Server(args.url, args.api_key))
