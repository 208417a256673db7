#!/usr/bin/env python3
"""Exercises a running server with an embedding model through `litellm`, LlamaIndex and LangChain.

    gristmill serve all-minilm-l6-v2 --port 8080 &
    pip install -r tools/clients/requirements-litellm.txt
    python tools/clients/encoders_frameworks_check.py http://127.0.0.1:8080 [--api-key KEY]

Prints one line a check and leaves with 1 if any failed. Every package must get the same vectors.
"""

import os

# Its table of prices is not asked for over the network.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm  # noqa: E402
import openai  # noqa: E402
from checks import arguments, check, run  # noqa: E402
from langchain_ollama import OllamaEmbeddings  # noqa: E402
from langchain_openai import OpenAIEmbeddings  # noqa: E402
from llama_index.embeddings.openai_like import OpenAILikeEmbedding  # noqa: E402
from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference  # noqa: E402

litellm.telemetry = False
litellm.suppress_debug_info = True
TEXTS = ["A mill grinds grain.", "The stock market fell today."]
QUERY = "How is flour made?"


class Server:
    def __init__(self, url, key):
        self.url = url
        self.key = key or "none"
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=self.key)
        self.model = client.models.list().data[0].id
        self.vectors = [e.embedding for e in client.embeddings.create(model=self.model, input=TEXTS).data]

    def same(self, vectors, count=len(TEXTS)):
        assert len(vectors) == count and all(len(vector) == len(self.vectors[0]) for vector in vectors)
        difference = max(abs(a - b) for one, other in zip(vectors, self.vectors) for a, b in zip(one, other))
        assert difference < 1e-7, difference


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
        # Infinity gives a document as a string where vLLM, on the same path, gives an object, as ours does.
        extra = {"return_documents": False} if provider == "infinity" else {}
        answer = litellm.rerank(
            model=f"{provider}/{s.model}", api_base=base, api_key=s.key, query=QUERY, documents=TEXTS, top_n=1, **extra
        )
        assert [result["index"] for result in answer.results] == [0], (provider, answer)
    answer = litellm.rerank(
        model=f"huggingface/{s.model}", api_base=s.url, api_key=s.key, query=QUERY, documents=TEXTS
    )
    assert answer.results[0]["index"] == 0, answer
    return ", ".join([*bases, "huggingface"])


@check
def llama_index(s):
    # Without instructions, the package puts those that it knows for a model's name before the text.
    plain = {"text_instruction": "", "query_instruction": ""}
    embedders = [
        TextEmbeddingsInference(model_name=s.model, base_url=s.url, auth_token=s.key, **plain),
        OpenAILikeEmbedding(model_name=s.model, api_base=f"{s.url}/v1", api_key=s.key),
    ]
    for embedder in embedders:
        s.same(embedder.get_text_embedding_batch(TEXTS))
        s.same([embedder.get_query_embedding(TEXTS[0])], 1)


@check
def langchain(s):
    embedders = [
        # Otherwise the package counts tokens of OpenAI's vocabulary and sends those instead of the text.
        OpenAIEmbeddings(model=s.model, base_url=f"{s.url}/v1", api_key=s.key, check_embedding_ctx_length=False),
        OllamaEmbeddings(model=s.model, base_url=s.url, client_kwargs={"headers": {"authorization": f"Bearer {s.key}"}}),
    ]
    for embedder in embedders:
        s.same(embedder.embed_documents(TEXTS))
        s.same([embedder.embed_query(TEXTS[0])], 1)


args = arguments().parse_args()
run(Server(args.url, args.api_key))
