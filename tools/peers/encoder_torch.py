"""The model of sentence-transformers (torch): its own modules from token ids on, with pooling and normalization as the checkpoint has them."""

import dataclasses
import functools

import encoder_cases

BATCHES = [1, 8, 32]
TYPES = ["float32", "bfloat16"]


@dataclasses.dataclass
class Variant:
    type: str
    batch: int

    @property
    def flags(self):
        return f"{self.type} batch {self.batch}"

    def workers(self, _threads):
        return 1

    def load(self, checkpoint, _folder, threads):
        return encoder(str(checkpoint), self.type, threads)


def variants(_program, _folder, case):
    batches = [1] if case == encoder_cases.QUERY else BATCHES
    return [Variant(type, batch) for type in TYPES for batch in batches]


@functools.lru_cache(maxsize=1)
def encoder(checkpoint, type, threads):
    import sentence_transformers
    import torch

    torch.set_num_threads(threads)
    model = sentence_transformers.SentenceTransformer(checkpoint, device="cpu", model_kwargs={"dtype": getattr(torch, type)})
    model.eval()

    @torch.inference_mode()
    def encode(texts):
        longest = max(map(len, texts))
        ids = torch.zeros((len(texts), longest), dtype=torch.int64)
        mask = torch.zeros_like(ids)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = torch.tensor(text)
            mask[row, : len(text)] = 1
        features = {"input_ids": ids, "attention_mask": mask}
        return model(features)["sentence_embedding"].float().numpy()

    return encode
