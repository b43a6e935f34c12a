"""Helpers of several test modules."""

from __future__ import annotations

import io

from cuwheel.check.explain.explanation import Explainer, Explanation

GCC_TOO_NEW = (
    "/usr/local/cuda-12.2/include/crt/host_config.h:143:2: error: #error -- unsupported GNU "
    "version! gcc versions later than 12 are not supported!"
)
BUILT = "Successfully built example-1.0-cp312-cp312-linux_x86_64.whl"


def explain(explainer: Explainer, *lines: str, **known: str) -> Explanation:
    return explainer.explain(io.BytesIO("\n".join(lines).encode()), known)
