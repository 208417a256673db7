"""What a checkpoint with random weights has beside its weights, for peers that read no GGUF, or want a tokenizer beside it."""


def config(inspected):
    """A config.json of the shape that `gristmill inspect FILE --json` tells, of a family that the bench's shapes are compared in.

    Scaling of rope is left out, which costs no time.
    """
    metadata = inspected["metadata"]
    family = metadata["general.architecture"]
    known = {"qwen3": "Qwen3ForCausalLM", "llama": "LlamaForCausalLM"}
    if family not in known:
        raise SystemExit(f"`{family}` is none of {', '.join(known)}")
    of = lambda key: metadata[f"{family}.{key}"]
    return {
        "architectures": [known[family]],
        "model_type": family,
        "hidden_act": "silu",
        "hidden_size": of("embedding_length"),
        "intermediate_size": of("feed_forward_length"),
        "num_hidden_layers": of("block_count"),
        "num_attention_heads": of("attention.head_count"),
        "num_key_value_heads": of("attention.head_count_kv"),
        "head_dim": of("attention.key_length"),
        "rms_norm_eps": of("attention.layer_norm_rms_epsilon"),
        "rope_theta": of("rope.freq_base"),
        "max_position_embeddings": of("context_length"),
        "vocab_size": vocabulary(inspected),
        "tie_word_embeddings": all(tensor["name"] != "output.weight" for tensor in inspected["tensors"]),
        "torch_dtype": "bfloat16",
    }


def vocabulary(inspected):
    """Tokens that the shape has."""
    metadata = inspected["metadata"]
    return metadata[f"{metadata['general.architecture']}.vocab_size"]


def letter(byte):
    """What stands for a byte in GPT-2's vocabularies: itself where it is printable, else one past Latin-1."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    if byte in printable:
        return chr(byte)
    return chr(256 + sum(1 for other in range(byte) if other not in printable))


def tokenizer(size):
    """A tokenizer.json that agrees with the vocabulary of files with random weights: 256 bytes, one merge, and placeholders up to `size`."""
    tokens = [letter(byte) for byte in range(256)]
    space = letter(ord(" "))
    tokens.append(space + "t")
    tokens += [f"<|{number}|>" for number in range(len(tokens), size)]
    pieces = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": pieces,
        "post_processor": None,
        "decoder": pieces,
        "model": {
            "type": "BPE",
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": [[space, "t"]],
        },
    }
