"""All methods by name."""

from jaxlab.quantization.baselines import (
  adaround,
  aphq,
  brecq,
  fima_q,
  gptq,
  hadamard,
  nonuniform,
  ptq4vit,
  qdrop,
  repq_vit,
  rtn,
  sharp,
  smoothquant,
)
from jaxlab.quantization.methods import PTQMethod

METHODS: dict[str, PTQMethod] = {
  method.name: method
  for method in (
    rtn.RTN_MINMAX,
    rtn.RTN_MSE,
    smoothquant.SMOOTHQUANT,
    hadamard.HADAMARD,
    hadamard.HADAMARD_GPTQ,
    gptq.GPTQ,
    adaround.ADAROUND,
    brecq.BRECQ,
    qdrop.QDROP,
    ptq4vit.PTQ4VIT,
    repq_vit.REPQ_VIT,
    aphq.APHQ,
    fima_q.FIMA_Q,
    nonuniform.KMEANS,
    nonuniform.APOT,
    nonuniform.LOG2,
    nonuniform.ADALOG,
    nonuniform.KMEANS_RECON,
    nonuniform.APOT_RECON,
    nonuniform.LOG2_RECON,
    nonuniform.ADALOG_RECON,
    nonuniform.KMEANS_ALIGNED,
    sharp.SHARP,
    sharp.SHARP_SELECT,
    sharp.HAR_ONLY,
    sharp.NO_TRANSFORM,
    sharp.DFSC_ONLY,
    sharp.HAR_MSE,
    sharp.STATIC,
    sharp.FLOAT_POINT,
    sharp.DIAG,
    sharp.SAMPLE,
    sharp.NO_GAIN,
    *sharp.PROBES,
    *sharp.COMPENSATED,
  )
}
