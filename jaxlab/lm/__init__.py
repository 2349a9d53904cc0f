"""Language models in pure JAX: a shared room that families import.

    from jaxlab.lm import loading, model, sampling

    cfg, params, tokenizer = loading.from_pretrained_package('smollm2-135m')
    apply_fn = model.apply_fn(model.Decoder(cfg))
    sp = sampling.SamplingParams(max_new=64, stop_ids=tokenizer.stop_ids)
    ids, mask = tokenizer.encode_batch(['The capital of France is'], 'left')
    out = sampling.generate(apply_fn, params, ids, mask, key, sp)

- `config`, `model`, `attention`, `rope`, `cache`: the decoder;
- `loading`, `names`, `metadata`, `gguf_io`, `safetensors_io`, `packages`:
  models from files and back;
- `tokenizer`, `chat`: text to tokens and back;
- `sampling`, `filters`: text from a model;
- `sft`, `policy`, `rlvr`, `rewards`, `updates`, `lora`: training;
- `sharding`: parameters over a mesh of devices;
- `addition`: a small task to train on; `reference`: the decoder in NumPy.

Modules are imported one by one, for some need packages of the extra `lm`.
"""
