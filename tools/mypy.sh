#!/bin/sh
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# mypy sees the collection under its importable name, through a link outside site-packages (which it refuses).
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
root=$here/.cache/typecheck
mkdir -p "$root/ansible_collections/firsttoken/serving"
ln -sfn "$here/plugins" "$root/ansible_collections/firsttoken/serving/plugins"
cd "$root"
MYPYPATH=$root exec "$here/.venv/bin/mypy" --config-file "$here/pyproject.toml" \
    --cache-dir "$here/.cache/mypy" -p ansible_collections.firsttoken.serving.plugins "$@"
